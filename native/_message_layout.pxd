"""How a message lies in a content, for the twins that read one."""

from libc.stdint cimport uint8_t, uint64_t

cdef struct Message:
    uint64_t props      # where its properties start
    uint64_t props_len
    uint64_t body       # where its body starts
    uint64_t body_len
    uint64_t end

cdef inline uint64_t u32le(const uint8_t *p) noexcept nogil:
    return <uint64_t>p[0] | (<uint64_t>p[1] << 8) | (<uint64_t>p[2] << 16) | (<uint64_t>p[3] << 24)

cdef inline bint message_at(const uint8_t *content, uint64_t length, uint64_t position, Message *m) noexcept nogil:
    """False if no whole message lies there."""
    if position > length or length - position < 8:
        return False
    m.props_len = u32le(content + position)
    m.body_len = u32le(content + position + 4)
    if m.props_len + m.body_len > length - position - 8:
        return False
    m.props = position + 8
    m.body = m.props + m.props_len
    m.end = m.body + m.body_len
    return True

cdef inline object damaged(const uint8_t *content, uint64_t length, Py_ssize_t position):
    if position < 0 or <uint64_t>position > length or length - <uint64_t>position < 8:
        return ValueError(f"damaged content: no message at {position} of {length} bytes")
    return ValueError(
        f"damaged content: message at {position} has {u32le(content + position)} + {u32le(content + position + 4)} bytes, "
        f"the content ends at {length}"
    )
