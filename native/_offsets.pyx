# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of native/offsets.py: one walk for the size, one that fills a bytes object of exactly that size."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from native._message_layout cimport Message, damaged, message_at
from native._table_values cimport value_size

cdef enum:
    CONTENT_TYPE = 1 << 15
    CONTENT_ENCODING = 1 << 14
    HEADERS = 1 << 13
    UNKNOWN_FLAGS = 3
    LENGTHS_SIZE = 8
    KEY_SIZE = 16
    ADDED_SIZE = KEY_SIZE + 1 + 8  # key, type, offset

cdef const char *KEY = b"\x0fx-stream-offset"
cdef uint64_t LEN_MAX = 0xFFFFFFFF
cdef object OFFSET_MAX = 2**63 - 1


cdef struct Extended:
    uint64_t headers       # where the headers are, or are to be put
    uint64_t entries       # where their entries start
    uint64_t entries_len   # 0 if there are none, or nobody can walk over them
    uint64_t kept_len      # of the entries, without an offset of theirs
    uint64_t rest          # where what follows the headers starts
    uint64_t size          # of the new properties
    uint64_t offset        # where in these the offset is


cdef inline uint64_t u32(const uint8_t *p) noexcept nogil:
    return (<uint64_t>p[0] << 24) | (<uint64_t>p[1] << 16) | (<uint64_t>p[2] << 8) | p[3]


cdef inline void put_u32(uint8_t *p, uint64_t value) noexcept nogil:
    p[0] = (value >> 24) & 0xFF
    p[1] = (value >> 16) & 0xFF
    p[2] = (value >> 8) & 0xFF
    p[3] = value & 0xFF


cdef inline void put_u32le(uint8_t *p, uint64_t value) noexcept nogil:
    p[0] = value & 0xFF
    p[1] = (value >> 8) & 0xFF
    p[2] = (value >> 16) & 0xFF
    p[3] = (value >> 24) & 0xFF


cdef inline void put_u64(uint8_t *p, uint64_t value) noexcept nogil:
    put_u32(p, value >> 32)
    put_u32(p + 4, <uint32_t>value)


cdef bint keep(const uint8_t *p, uint64_t length, uint8_t *out, uint64_t *kept) noexcept nogil:
    """Count, and copy if `out` is given, the entries that are not an offset; False if nobody can walk over them."""
    cdef uint64_t at = 0, start, key_len
    cdef int size
    kept[0] = 0
    while at < length:
        start = at
        key_len = p[at]
        at += 1 + key_len
        if at >= length:
            return False
        size = value_size(p[at])
        at += 1
        if size >= 0:
            at += size
        elif size == -1:
            if at > length or length - at < 4:
                return False
            at += 4 + u32(p + at)
        else:
            return False
        if at > length:
            return False
        if key_len + 1 == KEY_SIZE and memcmp(p + start, KEY, KEY_SIZE) == 0:
            continue
        if out != NULL:
            memcpy(out + kept[0], p + start, at - start)
        kept[0] += at - start
    return True


cdef bint extend(const uint8_t *p, uint64_t length, Extended *e) noexcept nogil:
    """Where the offset goes in a property list; False if that is malformed."""
    cdef uint32_t flags, flag
    cdef uint64_t at = 2
    cdef int number
    if length < 2:
        return False
    flags = (<uint32_t>p[0] << 8) | p[1]
    if flags & UNKNOWN_FLAGS:
        return False
    for number in range(2):
        flag = CONTENT_TYPE if number == 0 else CONTENT_ENCODING
        if flags & flag:
            if at >= length:
                return False
            at += 1 + <uint64_t>p[at]
    if at > length:
        return False
    e.headers = at
    e.entries = at
    e.entries_len = 0
    e.kept_len = 0
    e.rest = at
    if flags & HEADERS:
        if length - at < 4:
            return False
        e.entries = at + 4
        e.entries_len = u32(p + at)
        if length - e.entries < e.entries_len:
            return False
        e.rest = e.entries + e.entries_len
        if not keep(p + e.entries, e.entries_len, NULL, &e.kept_len):
            e.entries_len = 0
            e.kept_len = 0
    e.offset = e.headers + 4 + e.kept_len + KEY_SIZE + 1
    e.size = e.offset + 8 + length - e.rest
    return True


cdef void put_extended(uint8_t *out, const uint8_t *p, uint64_t length, Extended *e) noexcept nogil:
    """The new properties, without the offset itself."""
    cdef uint64_t kept
    memcpy(out, p, e.headers)
    out[0] |= HEADERS >> 8
    put_u32(out + e.headers, e.kept_len + ADDED_SIZE)
    if e.kept_len == e.entries_len:
        memcpy(out + e.headers + 4, p + e.entries, e.kept_len)
    else:
        keep(p + e.entries, e.entries_len, out + e.headers + 4, &kept)
    memcpy(out + e.offset - KEY_SIZE - 1, KEY, KEY_SIZE)
    out[e.offset - 1] = b'l'
    memcpy(out + e.offset + 8, p + e.rest, length - e.rest)


cdef uint64_t size_of(const uint8_t *content, uint64_t length, Py_ssize_t position, Py_ssize_t count) except? 0:
    cdef Message m
    cdef Extended e
    cdef const uint8_t *known = NULL
    cdef uint64_t known_len = 0, total = 0
    while count > 0:
        if not message_at(content, length, <uint64_t>position, &m):
            raise damaged(content, length, position)
        if known == NULL or m.props_len != known_len or memcmp(content + m.props, known, known_len) != 0:
            if not extend(content + m.props, m.props_len, &e):
                raise ValueError(f"damaged content: malformed property list of {m.props_len} bytes")
            if e.size > LEN_MAX:
                raise ValueError(f"properties of {e.size} bytes: a message holds at most {LEN_MAX}")
            known = content + m.props
            known_len = m.props_len
        total += LENGTHS_SIZE + e.size + m.body_len
        position = <Py_ssize_t>m.end
        count -= 1
    return total


cdef int fill(
    uint8_t *out, const uint8_t *content, uint64_t length, Py_ssize_t position, Py_ssize_t count, uint64_t offset
) except -1:
    """The properties that were written last serve the next message too, if it has the same."""
    cdef Message m
    cdef Extended e
    cdef const uint8_t *known = NULL
    cdef const uint8_t *written = NULL
    cdef uint64_t known_len = 0
    while count > 0:
        if not message_at(content, length, <uint64_t>position, &m):
            raise damaged(content, length, position)
        if known == NULL or m.props_len != known_len or memcmp(content + m.props, known, known_len) != 0:
            known = content + m.props
            known_len = m.props_len
            extend(known, known_len, &e)
            put_extended(out + LENGTHS_SIZE, known, known_len, &e)
        else:
            memcpy(out + LENGTHS_SIZE, written, e.size)
        put_u32le(out, e.size)
        put_u32le(out + 4, m.body_len)
        written = out + LENGTHS_SIZE
        put_u64(out + LENGTHS_SIZE + e.offset, offset)
        memcpy(out + LENGTHS_SIZE + e.size, content + m.body, m.body_len)
        out += LENGTHS_SIZE + e.size + m.body_len
        position = <Py_ssize_t>m.end
        offset += 1
        count -= 1
    return 0


def with_offsets(content, Py_ssize_t position, Py_ssize_t count, first):
    """See native/offsets.py."""
    cdef Py_buffer view
    cdef uint64_t total
    cdef bytes changed
    cdef int64_t offset
    if first < 0 or first + count - 1 > OFFSET_MAX:
        raise OverflowError(f"{count} offsets from {first} on are not within 63 bits")
    PyObject_GetBuffer(content, &view, PyBUF_SIMPLE)
    try:
        total = size_of(<const uint8_t *>view.buf, <uint64_t>view.len, position, count)
        changed = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>total)
        if count > 0:
            offset = first
            fill(
                <uint8_t *>PyBytes_AS_STRING(changed), <const uint8_t *>view.buf, <uint64_t>view.len,
                position, count, <uint64_t>offset,
            )
        return changed
    finally:
        PyBuffer_Release(&view)
