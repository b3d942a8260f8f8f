# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of native/entry_scan.py. What one entry has as the one before is the same object."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from native._little_endian cimport get_le

cdef extern from "_crc32c.h" nogil:
    void crc32c_init()
    uint32_t crc32c_of(uint32_t value, const void *buffer, size_t len)

crc32c_init()

cdef enum:
    ENTRY_VERSION = 1
    ENQUEUE = 1
    SETTLE = 2
    ORIGINS = 17
    PERSISTENT = 1
    NUMBERED = 4
    WAITED_FOR = 1
    ACKNOWLEDGED = 0

    FIRST_OP = 9
    OP_SIZE = 5
    # With the heads of their ops.
    ORIGIN_SIZE = 22
    ENQUEUE_SIZE = 57
    ACKNOWLEDGEMENT_SIZE = 38
    ZEROS_SIZE = 4096

cdef uint64_t ID_END = <uint64_t>1 << 62
cdef uint64_t NO_EXPIRATION = <uint64_t>-1
cdef uint64_t EXACT_MAX = <uint64_t>1 << 53
cdef uint8_t[ZEROS_SIZE] ZEROS


cdef struct Origin:
    bint is_said
    uint32_t actor
    uint64_t number
    uint32_t messages
    bint waited_for


cdef class Before:
    """What the entry before had."""

    cdef tuple session, consumer
    cdef bytes names
    cdef uint64_t session_incarnation, consumer_incarnation, consumer_number
    cdef uint32_t session_node, consumer_node

    cdef tuple session_at(self, const uint8_t *p):
        cdef uint32_t node = <uint32_t>get_le(p, 4)
        cdef uint64_t incarnation = get_le(p + 4, 8)
        if self.session is None or node != self.session_node or incarnation != self.session_incarnation:
            self.session, self.session_node, self.session_incarnation = (node, incarnation), node, incarnation
        return self.session

    cdef tuple consumer_at(self, const uint8_t *p):
        cdef uint32_t node = <uint32_t>get_le(p, 4)
        cdef uint64_t incarnation = get_le(p + 4, 8), number = get_le(p + 12, 8)
        if (
            self.consumer is None or node != self.consumer_node or number != self.consumer_number
            or incarnation != self.consumer_incarnation
        ):
            self.consumer, self.consumer_node = (node, incarnation, number), node
            self.consumer_incarnation, self.consumer_number = incarnation, number
        return self.consumer

    cdef bytes names_at(self, const uint8_t *p, Py_ssize_t size):
        if (
            self.names is None or PyBytes_GET_SIZE(self.names) != size
            or memcmp(PyBytes_AS_STRING(self.names), p, <size_t>size)
        ):
            self.names = PyBytes_FromStringAndSize(<const char *>p, size)
        return self.names


cdef uint32_t checksum(const uint8_t *data, uint64_t cut_at, uint64_t cut, uint64_t behind) noexcept nogil:
    """Of an entry, part of which was cut out and is zeros."""
    cdef uint32_t value = crc32c_of(0, data, cut_at)
    while cut > ZEROS_SIZE:
        value = crc32c_of(value, ZEROS, ZEROS_SIZE)
        cut -= ZEROS_SIZE
    value = crc32c_of(value, ZEROS, cut)
    return crc32c_of(value, data + cut_at, behind)


cdef tuple acknowledgement(Before before, const uint8_t *data, uint64_t at, uint64_t held):
    cdef const uint8_t *p = data + at
    if held - at != ACKNOWLEDGEMENT_SIZE or p[0] != SETTLE or p[25] != ACKNOWLEDGED:
        return None
    if get_le(p + 1, 4) != ACKNOWLEDGEMENT_SIZE - OP_SIZE:
        return None
    cdef uint64_t first = get_le(p + 26, 8), length = get_le(p + 34, 4)
    if first > ID_END or length > ID_END - first:
        return None
    return before.consumer_at(p + OP_SIZE), first, length


cdef tuple publish(Before before, const uint8_t *data, uint64_t held, uint64_t size, uint64_t at, Origin *origin):
    if held < at + ENQUEUE_SIZE:
        return None
    cdef const uint8_t *p = data + at
    cdef uint64_t whole = size if size else held, op_end = at + OP_SIZE + get_le(p + 1, 4)
    cdef uint64_t sequence = get_le(p + 17, 8), length = get_le(p + 33, 4), body_bytes = get_le(p + 37, 8)
    cdef uint64_t names_size = <uint64_t>p[55] + p[56]
    if p[0] != ENQUEUE or op_end > whole or held > whole:
        return None
    cdef uint64_t behind = whole - op_end
    if behind != 0 and behind != ACKNOWLEDGEMENT_SIZE:
        return None
    if held < behind or held - behind < at + ENQUEUE_SIZE + names_size:
        return None
    if length == 0 or (origin.is_said and length != origin.messages) or sequence > ID_END or length > ID_END - sequence:
        return None
    if get_le(p + 45, 8) != NO_EXPIRATION or p[53] & NUMBERED or body_bytes > EXACT_MAX:
        return None
    cdef tuple settled = None
    if behind:
        settled = acknowledgement(before, data, held - behind, held)
        if settled is None:
            return None
    cdef object actor = None, number = None, confirm = None
    if origin.is_said:
        number = origin.number if origin.number else None
        if origin.actor:
            actor, confirm = origin.actor, bool(origin.waited_for)
    cdef tuple published = (
        at, before.session_at(p + OP_SIZE), sequence, length, body_bytes, bool(p[53] & PERSISTENT), p[54],
        before.names_at(p + ENQUEUE_SIZE, <Py_ssize_t>names_size), p[55], actor, number, confirm,
    )
    return get_le(data + 1, 8), checksum(data, held - behind, whole - held, behind), published, settled


cdef tuple read(Before before, bytes entry, uint64_t size):
    cdef const uint8_t *data = <const uint8_t *>PyBytes_AS_STRING(entry)
    cdef uint64_t held = <uint64_t>PyBytes_GET_SIZE(entry)
    cdef const uint8_t *p = data + FIRST_OP
    cdef Origin origin
    cdef tuple settled
    if held <= FIRST_OP or data[0] != ENTRY_VERSION:
        return None
    if p[0] == SETTLE:
        settled = None if size else acknowledgement(before, data, FIRST_OP, held)
        return None if settled is None else (get_le(data + 1, 8), crc32c_of(0, data, held), None, settled)
    origin.is_said = p[0] == ORIGINS
    if not origin.is_said:
        return publish(before, data, held, size, FIRST_OP, &origin) if p[0] == ENQUEUE else None
    if held < FIRST_OP + ORIGIN_SIZE or get_le(p + 1, 4) != ORIGIN_SIZE - OP_SIZE or p[21] > WAITED_FOR:
        return None
    origin.actor, origin.number = <uint32_t>get_le(p + 5, 4), get_le(p + 9, 8)
    origin.messages, origin.waited_for = <uint32_t>get_le(p + 17, 4), p[21]
    return publish(before, data, held, size, FIRST_OP + ORIGIN_SIZE, &origin)


def lone_entry(bytes data not None, int64_t size):
    """See native/entry_scan.py."""
    return read(Before.__new__(Before), data, <uint64_t>size)


def lone_entries(list data not None, list sizes not None):
    """The same."""
    cdef Before before = Before.__new__(Before)
    cdef Py_ssize_t at, count = len(data)
    if len(sizes) != count:
        raise ValueError(f"{count} entries have {len(sizes)} sizes")
    for at in range(count):
        if not isinstance(data[at], bytes):
            raise TypeError(f"entry {at} is no bytes, but {data[at]!r}")
    return [read(before, data[at], <uint64_t>(<int64_t>sizes[at])) for at in range(count)]
