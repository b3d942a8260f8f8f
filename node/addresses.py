"""Addresses as people write them: HOST:PORT, with brackets around an IPv6 address."""

from __future__ import annotations


class BadAddress(ValueError):
    """Not HOST:PORT; the text names what was given."""


def host_and_port(address: str) -> tuple[str, int]:
    """`127.0.0.1:5672` or `[::1]:5672` as its two parts. Raises BadAddress."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise BadAddress(f"{address!r}: give HOST:PORT, for example 127.0.0.1:5672")
    return host.removeprefix("[").removesuffix("]"), int(port)


def endpoint(host: str, port: int) -> str:
    """`127.0.0.1:5672` or `[::1]:5672`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
