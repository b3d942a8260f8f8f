"""How long the values of a headers table are, for the twins that step over them."""

from libc.stdint cimport uint8_t

cdef inline int value_size(uint8_t kind) noexcept nogil:
    """Bytes of a table value; -1 = a u32 length and that many bytes, -2 = no such type."""
    if kind == b'S' or kind == b'x' or kind == b'F' or kind == b'A':
        return -1
    if kind == b't' or kind == b'b' or kind == b'B':
        return 1
    if kind == b'I' or kind == b'i' or kind == b'f':
        return 4
    if kind == b'l' or kind == b'L' or kind == b'd' or kind == b'T':
        return 8
    if kind == b's' or kind == b'u':
        return 2
    if kind == b'D':
        return 5
    if kind == b'V':
        return 0
    return -2
