# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of native/record_scan.py."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from native._little_endian cimport get_le
from native._record_layout cimport CRC_SIZE, HEADER_SIZE, WHOLE, crc32c_init, crc32c_of, look_at

crc32c_init()

cdef uint64_t PAYLOAD_LEN_MAX = 0xFFFFFFFF


cdef inline void put_le(uint8_t *p, int size, uint64_t value) noexcept nogil:
    cdef int i
    for i in range(size):
        p[i] = (value >> (8 * i)) & 0xFF


def scan(buffer, Py_ssize_t start, Py_ssize_t end, uint64_t payload_max):
    """See native/record_scan.py."""
    cdef Py_buffer view
    cdef const uint8_t *bytes
    cdef const uint8_t *head
    cdef uint64_t position, payload
    cdef int found
    cdef list records = []
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= start <= end <= view.len:
            raise ValueError(f"cannot scan from {start} to {end} in a buffer of {view.len} bytes")
        bytes = <const uint8_t *>view.buf
        position = <uint64_t>start
        while True:
            found = look_at(bytes, position, <uint64_t>end, payload_max)
            if found != WHOLE:
                return records, position, found
            head = bytes + position
            payload = position + HEADER_SIZE
            position = payload + get_le(head + 4, 4)
            records.append((
                head[8], get_le(head + 10, 2), get_le(head + 12, 4), get_le(head + 16, 8), get_le(head + 24, 8),
                payload, position,
            ))
    finally:
        PyBuffer_Release(&view)


def seal(parts, uint8_t kind, uint16_t flags, uint32_t term, uint64_t writer, uint64_t index, uint8_t version):
    """See native/record_scan.py."""
    cdef Py_buffer view
    cdef uint8_t head[HEADER_SIZE]
    cdef uint64_t payload_len = 0
    cdef uint32_t crc
    for part in parts:
        payload_len += <uint64_t>len(part)
    if payload_len > PAYLOAD_LEN_MAX:
        raise ValueError(f"payload of {payload_len} bytes: a record holds at most {PAYLOAD_LEN_MAX}")
    put_le(head + 4, 4, payload_len)
    head[8] = kind
    head[9] = version
    put_le(head + 10, 2, flags)
    put_le(head + 12, 4, term)
    put_le(head + 16, 8, writer)
    put_le(head + 24, 8, index)
    crc = crc32c_of(0, head + CRC_SIZE, HEADER_SIZE - CRC_SIZE)
    for part in parts:
        PyObject_GetBuffer(part, &view, PyBUF_SIMPLE)
        crc = crc32c_of(crc, view.buf, <size_t>view.len)
        PyBuffer_Release(&view)
    put_le(head, 4, crc)
    return PyBytes_FromStringAndSize(<const char *>head, HEADER_SIZE)
