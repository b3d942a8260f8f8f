"""Exchange and routing key of a run, as they lie in the log, in index segments and in what nodes say to each other:

    exchange_len u8 | exchange | key_len u8 | routing key

Texts of clients that are no UTF-8 come back as they were.
"""

from __future__ import annotations

from functools import lru_cache

CACHED = 1_024  # most runs go the same few ways


@lru_cache(CACHED)
def encode(exchange: str, routing_key: str) -> bytes:
    name, key = (text.encode("utf-8", "surrogateescape") for text in (exchange, routing_key))
    return b"".join((bytes((len(name),)), name, bytes((len(key),)), key))


@lru_cache(CACHED)
def split(encoded: bytes) -> tuple[str, str]:
    """Exchange and routing key of bytes that hold nothing else."""
    name_end = 1 + encoded[0]
    name, key = encoded[1:name_end], encoded[name_end + 1 :]
    return name.decode("utf-8", "surrogateescape"), key.decode("utf-8", "surrogateescape")


def end_of(data: bytes | memoryview, at: int) -> int:
    """Where they end. Raises IndexError where the bytes end before."""
    key_at = at + 1 + data[at]
    return key_at + 1 + data[key_at]


def read(data: bytes | memoryview, at: int) -> tuple[str, str, int]:
    """Exchange, routing key, and where they end. Raises IndexError or ValueError where the bytes end before."""
    name_end = at + 1 + data[at]
    end = name_end + 1 + data[name_end]
    if end > len(data):
        raise ValueError(f"exchange and key at {at} end at {end}, of {len(data)} bytes")
    return *split(bytes(data[at:end])), end
