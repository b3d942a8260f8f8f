"""How a record lies in a file, for the twins that walk them. Who cimports this calls crc32c_init when it is imported."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from native._little_endian cimport get_le

cdef extern from "_crc32c.h" nogil:
    void crc32c_init()
    uint32_t crc32c_of(uint32_t value, const void *buffer, size_t len)

cdef enum:
    REACHED_END = 0
    CLEAN_END = 1
    TORN = 2
    DAMAGED = 3
    WHOLE = 4

    HEADER_SIZE = 32
    CRC_SIZE = 4


cdef inline int look_at(const uint8_t *bytes, uint64_t position, uint64_t end, uint64_t payload_max) noexcept nogil:
    """WHOLE if a record lies at a position, else why none does."""
    cdef const uint8_t *head = bytes + position
    cdef uint64_t left = end - position, payload_len
    cdef uint64_t i, shown = left if left < HEADER_SIZE else HEADER_SIZE
    if left == 0:
        return REACHED_END
    i = 0
    while i < shown and head[i] == 0:
        i += 1
    if i == shown:
        return CLEAN_END
    if left < HEADER_SIZE:
        return TORN
    payload_len = get_le(head + 4, 4)
    if payload_len > payload_max:
        return DAMAGED
    if payload_len > left - HEADER_SIZE:
        return TORN
    if crc32c_of(0, head + CRC_SIZE, HEADER_SIZE - CRC_SIZE + payload_len) != get_le(head, 4):
        return DAMAGED
    return WHOLE
