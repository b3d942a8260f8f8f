# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of native/stream_publish.py: one walk that finds the runs, one that copies them."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

cdef enum:
    HEAD_SIZE = 13        # of a frame, with its size
    SIZE_SIZE = 4
    MESSAGE_SIZE = 12     # id and length
    ID_SIZE = 8
    RUN_MESSAGES_MAX = 8192
    RUN_ITEMS_BYTES_MAX = 1 << 20
    RUNS_MAX = 256
    FRAME_DESCENTS_MAX = 64

cdef uint64_t SUB_BATCH_BIT = 0x80000000


cdef struct Extent:
    uint64_t count
    uint64_t items_len
    uint64_t last_id
    uint8_t publisher


cdef struct Extents:
    Extent *first
    size_t count
    size_t room


cdef inline uint64_t u32(const uint8_t *p) noexcept nogil:
    return (<uint64_t>p[0] << 24) | (<uint64_t>p[1] << 16) | (<uint64_t>p[2] << 8) | p[3]


cdef inline uint64_t u64(const uint8_t *p) noexcept nogil:
    return u32(p) << 32 | u32(p + 4)


cdef bint is_taken(const uint8_t *p, uint64_t left, uint64_t frame_bytes_max) noexcept nogil:
    """Whether a whole frame of plain messages begins at `p`."""
    cdef uint64_t size, count, at = HEAD_SIZE, end, length, id_, before = 0, descents = 0
    cdef bint is_first = True
    if left < HEAD_SIZE:
        return False
    size = u32(p)
    if size < HEAD_SIZE - SIZE_SIZE or size > left - SIZE_SIZE or 0 < frame_bytes_max < size:
        return False
    if p[4] != 0 or p[5] != 2 or p[6] != 0 or p[7] != 1:
        return False
    end = SIZE_SIZE + size
    count = u32(p + 9)
    while count > 0:
        if end - at < MESSAGE_SIZE:
            return False
        id_ = u64(p + at)
        length = u32(p + at + ID_SIZE)
        at += MESSAGE_SIZE
        descents += not is_first and id_ <= before
        is_first, before = False, id_
        if length & SUB_BATCH_BIT or length > end - at:
            return False
        at += length
        count -= 1
    return at == end and descents <= FRAME_DESCENTS_MAX


cdef int note(Extents *runs, uint8_t publisher, uint64_t id_, uint64_t size) except -1:
    """One message more, in the last run or in a new one."""
    cdef Extent *run
    cdef Extent *moved
    if runs.count > 0:
        run = runs.first + runs.count - 1
        if (
            run.publisher == publisher
            and run.last_id < id_
            and run.count < RUN_MESSAGES_MAX
            and run.items_len + size <= RUN_ITEMS_BYTES_MAX
        ):
            run.count += 1
            run.items_len += size
            run.last_id = id_
            return 0
    if runs.count == runs.room:
        moved = <Extent *>realloc(runs.first, 2 * (runs.room + 4) * sizeof(Extent))
        if moved == NULL:
            raise MemoryError()
        runs.first = moved
        runs.room = 2 * (runs.room + 4)
    run = runs.first + runs.count
    run.publisher, run.count, run.items_len, run.last_id = publisher, 1, size, id_
    runs.count += 1
    return 0


cdef const uint8_t *copy(const uint8_t *p, uint64_t *in_frame, Extent *run, uint8_t *ids, uint8_t *items) noexcept nogil:
    """The messages of a run, from frames that were taken. `in_frame` counts what is left of the frame that `p` is in."""
    cdef uint64_t count = run.count, size
    while count > 0:
        while in_frame[0] == 0:
            in_frame[0] = u32(p + 9)
            p += HEAD_SIZE
        size = SIZE_SIZE + u32(p + ID_SIZE)
        memcpy(ids, p, ID_SIZE)
        memcpy(items, p + ID_SIZE, size)
        ids += ID_SIZE
        items += size
        p += ID_SIZE + size
        in_frame[0] -= 1
        count -= 1
    return p


cdef object taken(const uint8_t *data, uint64_t length, uint64_t position, uint64_t frame_bytes_max, Extents *runs):
    cdef uint64_t at = position, end, message, in_frame = 0
    cdef uint8_t publisher
    cdef const uint8_t *p = data + position
    cdef size_t place
    cdef Extent *run
    cdef list found = []
    while runs.count < RUNS_MAX and is_taken(data + at, length - at, frame_bytes_max):
        end = at + SIZE_SIZE + u32(data + at)
        publisher = data[at + 8]
        message = at + HEAD_SIZE
        while message < end:
            note(runs, publisher, u64(data + message), SIZE_SIZE + u32(data + message + ID_SIZE))
            message += MESSAGE_SIZE + u32(data + message + ID_SIZE)
        at = end
    for place in range(runs.count):
        run = runs.first + place
        ids = PyBytes_FromStringAndSize(NULL, run.count * ID_SIZE)
        items = PyBytes_FromStringAndSize(NULL, run.items_len)
        p = copy(p, &in_frame, run, <uint8_t *>PyBytes_AS_STRING(ids), <uint8_t *>PyBytes_AS_STRING(items))
        found.append((run.publisher, run.count, ids, items))
    return found, at


def published(data, uint64_t position, uint64_t frame_bytes_max):
    """As native/stream_publish.py has it."""
    cdef Py_buffer view
    cdef Extents runs
    runs.first, runs.count, runs.room = NULL, 0, 0
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if position > <uint64_t>view.len:
            return [], position
        return taken(<const uint8_t *>view.buf, view.len, position, frame_bytes_max, &runs)
    finally:
        free(runs.first)
        PyBuffer_Release(&view)
