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
    ID_SIZE = 8
    LENGTH_SIZE = 4
    SUB_BATCH_SIZE = 11   # what stands before the bytes of one
    SUB_BATCH_BIT = 0x80
    COMPRESSIONS = 5
    RUN_MESSAGES_MAX = 4096
    RUN_ITEMS_BYTES_MAX = 1 << 20
    RUN_UNPACKED_BYTES_MAX = 4 << 20
    SUB_BATCH_BYTES_MAX = 64 << 20
    RUNS_MAX = 256
    FRAME_RUNS_MAX = 64


cdef struct Item:
    uint64_t id_
    uint64_t size         # without the id
    uint64_t messages
    uint64_t unpacked
    bint is_sub_batch


cdef struct Extent:
    uint64_t count
    uint64_t messages
    uint64_t items_len
    uint64_t unpacked
    uint64_t last_id
    uint8_t publisher
    bint is_sub_batch


cdef struct Extents:
    Extent *first
    size_t count
    size_t room


cdef inline uint64_t u32(const uint8_t *p) noexcept nogil:
    return (<uint64_t>p[0] << 24) | (<uint64_t>p[1] << 16) | (<uint64_t>p[2] << 8) | p[3]


cdef inline uint64_t u64(const uint8_t *p) noexcept nogil:
    return u32(p) << 32 | u32(p + 4)


cdef inline uint64_t item_size(const uint8_t *p, bint is_sub_batch) noexcept nogil:
    return SUB_BATCH_SIZE + u32(p + 7) if is_sub_batch else LENGTH_SIZE + u32(p)


cdef inline bint read_item(const uint8_t *p, uint64_t left, Item *item) noexcept nogil:
    """The item at `p`. Whether it is whole, and possible."""
    cdef uint8_t compression
    if left < LENGTH_SIZE:
        return False
    item.is_sub_batch = p[0] & SUB_BATCH_BIT != 0
    if not item.is_sub_batch:
        item.messages, item.unpacked = 1, 0
    elif left < SUB_BATCH_SIZE:
        return False
    else:
        compression = p[0] >> 4 & 7
        item.messages = <uint64_t>p[1] << 8 | p[2]
        item.unpacked = u32(p + 3)
        if (
            compression >= COMPRESSIONS
            or item.messages == 0
            or not item.messages * LENGTH_SIZE <= item.unpacked <= SUB_BATCH_BYTES_MAX
            or (compression > 0 and u32(p + 7) == 0)
        ):
            return False
    item.size = item_size(p, item.is_sub_batch)
    return item.size <= left


cdef inline bint read_entry(const uint8_t *p, uint64_t left, Item *item) noexcept nogil:
    """The same with the id before it."""
    if left < ID_SIZE:
        return False
    item.id_ = u64(p)
    return read_item(p + ID_SIZE, left - ID_SIZE, item)


cdef inline bint takes(Extent *run, uint8_t publisher, Item *item) noexcept nogil:
    """Whether the run goes on with it, and then it has it."""
    if (
        run.publisher != publisher
        or run.last_id >= item.id_
        or run.is_sub_batch != item.is_sub_batch
        or run.messages + item.messages > RUN_MESSAGES_MAX
        or run.items_len + item.size > RUN_ITEMS_BYTES_MAX
        or run.unpacked + item.unpacked > RUN_UNPACKED_BYTES_MAX
    ):
        return False
    run.count += 1
    run.messages += item.messages
    run.items_len += item.size
    run.unpacked += item.unpacked
    run.last_id = item.id_
    return True


cdef inline void begin(Extent *run, uint8_t publisher, Item *item) noexcept nogil:
    run.count, run.messages, run.items_len, run.unpacked = 1, item.messages, item.size, item.unpacked
    run.last_id, run.publisher, run.is_sub_batch = item.id_, publisher, item.is_sub_batch


cdef bint is_taken(const uint8_t *p, uint64_t left, uint64_t frame_bytes_max) noexcept nogil:
    """Whether a whole frame of items begins at `p`."""
    cdef uint64_t size, count, at = HEAD_SIZE, end, runs = 0
    cdef Item item
    cdef Extent run
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
        if not read_entry(p + at, end - at, &item):
            return False
        if runs == 0 or not takes(&run, 0, &item):
            begin(&run, 0, &item)
            runs += 1
        at += ID_SIZE + item.size
        count -= 1
    return at == end and runs <= FRAME_RUNS_MAX


cdef int note(Extents *runs, uint8_t publisher, Item *item) except -1:
    """One item more, in the last run or in a new one."""
    cdef Extent *moved
    if runs.count > 0 and takes(runs.first + runs.count - 1, publisher, item):
        return 0
    if runs.count == runs.room:
        moved = <Extent *>realloc(runs.first, 2 * (runs.room + 4) * sizeof(Extent))
        if moved == NULL:
            raise MemoryError()
        runs.first = moved
        runs.room = 2 * (runs.room + 4)
    begin(runs.first + runs.count, publisher, item)
    runs.count += 1
    return 0


cdef const uint8_t *copy(const uint8_t *p, uint64_t *in_frame, Extent *run, uint8_t *ids, uint8_t *items) noexcept nogil:
    """The items of a run, from frames that were taken. `in_frame` counts what is left of the frame that `p` is in."""
    cdef uint64_t count = run.count, size
    while count > 0:
        while in_frame[0] == 0:
            in_frame[0] = u32(p + 9)
            p += HEAD_SIZE
        size = item_size(p + ID_SIZE, run.is_sub_batch)
        memcpy(ids, p, ID_SIZE)
        memcpy(items, p + ID_SIZE, size)
        ids += ID_SIZE
        items += size
        p += ID_SIZE + size
        in_frame[0] -= 1
        count -= 1
    return p


cdef object taken(const uint8_t *data, uint64_t length, uint64_t position, uint64_t frame_bytes_max, Extents *runs):
    cdef uint64_t at = position, end, entry, in_frame = 0
    cdef const uint8_t *p = data + position
    cdef size_t place
    cdef Item item
    cdef Extent *run
    cdef list found = []
    while runs.count < RUNS_MAX and is_taken(data + at, length - at, frame_bytes_max):
        end = at + SIZE_SIZE + u32(data + at)
        entry = at + HEAD_SIZE
        while entry < end:
            if not read_entry(data + entry, end - entry, &item):
                raise AssertionError(f"no item is at {entry} of {end} bytes of a frame that was taken")
            note(runs, data[at + 8], &item)
            entry += ID_SIZE + item.size
        at = end
    for place in range(runs.count):
        run = runs.first + place
        ids = PyBytes_FromStringAndSize(NULL, run.count * ID_SIZE)
        items = PyBytes_FromStringAndSize(NULL, run.items_len)
        p = copy(p, &in_frame, run, <uint8_t *>PyBytes_AS_STRING(ids), <uint8_t *>PyBytes_AS_STRING(items))
        found.append((run.publisher, run.count, run.messages, ids, items, run.unpacked))
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


def count_items(data):
    """As native/stream_publish.py has it."""
    cdef Py_buffer view
    cdef Item item
    cdef uint64_t at = 0, end, items = 0, messages = 0, sub_batches = 0
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        end = <uint64_t>view.len
        while at < end:
            if not read_item(<const uint8_t *>view.buf + at, end - at, &item):
                raise ValueError(f"no item is at {at} of {end} bytes")
            at += item.size
            items += 1
            messages += item.messages
            sub_batches += item.is_sub_batch
        return items, messages, sub_batches
    finally:
        PyBuffer_Release(&view)


def ids_ascend(ids):
    """As native/stream_publish.py has it."""
    cdef Py_buffer view
    cdef const uint8_t *p
    cdef uint64_t at
    PyObject_GetBuffer(ids, &view, PyBUF_SIMPLE)
    try:
        p = <const uint8_t *>view.buf
        for at in range(ID_SIZE, <uint64_t>view.len - view.len % ID_SIZE, ID_SIZE):
            if u64(p + at - ID_SIZE) >= u64(p + at):
                return False
        return True
    finally:
        PyBuffer_Release(&view)
