"""CRC-32C (Castagnoli), the checksum of everything that rests on disk.

Polynomial 0x1EDC6F41 reflected, start and end inverted, as iSCSI (RFC 3720) and most storage systems have it: the
checksum of b"123456789" is 0xE3069283. Chosen over zlib's CRC-32 because processors compute it by themselves.
"""

from __future__ import annotations

from typing import TypeAlias

from native import compiled_twin

Buffer: TypeAlias = bytes | bytearray | memoryview

_POLYNOMIAL_REFLECTED = 0x82F63B78
_ALL_ONES = 0xFFFFFFFF


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL_REFLECTED if byte & 1 else 0)
    return byte


_TABLE = tuple(_table_entry(byte) for byte in range(256))


def crc32c_plain(buffer: Buffer, value: int = 0) -> int:
    """The checksum of a buffer. `value` is that of what came before: crc32c(a + b) == crc32c(b, crc32c(a))."""
    if not 0 <= value <= _ALL_ONES:
        raise OverflowError(f"value is {value}: a checksum has 32 bits")
    crc = value ^ _ALL_ONES
    with memoryview(buffer) as view:
        for byte in view:
            crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ _ALL_ONES


crc32c = crc32c_plain

if (_twin := compiled_twin("crc32c")) is not None:
    crc32c = _twin.crc32c
