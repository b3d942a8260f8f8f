"""Numbers as they lie in our files, for the twins that read and write them."""

from libc.stdint cimport uint8_t, uint64_t


cdef inline uint64_t get_le(const uint8_t *p, int size) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    for i in range(size):
        value |= <uint64_t>p[i] << (8 * i)
    return value


cdef inline void put_le(uint8_t *p, uint64_t value, int size) noexcept nogil:
    cdef int i
    for i in range(size):
        p[i] = <uint8_t>(value >> (8 * i))
