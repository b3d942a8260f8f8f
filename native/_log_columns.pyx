# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of native/log_columns.py."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from native._column_layout cimport (
    BINARY, DATA_BYTES_MAX, INT8, INT32, INT64, Column, add_bytes, end_bytes, finished, maybe8, maybe64, new_column,
    null_bytes, put8, put32, put64, put_bytes,
)
from native._little_endian cimport get_le, put_le
from native._record_layout cimport HEADER_SIZE, WHOLE, crc32c_init, look_at

crc32c_init()

cdef enum:
    MISPLACED = 4

    MARK = 1
    ROLL = 2
    FIRST_KIND_OF_WRITERS = 16
    CLASSIC_PUBLISH = 16
    CLASSIC_SETTLE = 17
    CLASSIC_QUEUE_DELETED = 19
    CLASSIC_DONE = 24
    CLASSIC_OUT = 25
    CLASSIC_BACK = 26
    CLASSIC_CHECKPOINT = 27
    RAFT_ENTRIES = 32
    RAFT_COMMIT = 42
    COUNTS = 51
    STREAM_READERS = 52
    COMMAND = 0

    MARK_SIZE = 64
    TIMED_MARK_SIZE = 72
    ROLL_SIZE = 40
    LOG_ID_SIZE = 16

    PUBLISHED_SIZE = 26
    PAIR_SIZE = 16
    DEATH_SIZE = 25
    PART_SIZE = 16
    ORIGIN_SIZE = 17
    ORIGIN_WAITED_FOR = 1
    ORIGIN_DIED = 2
    REASONED_SIZE = 13
    CHECKPOINT_SIZE = 30
    SPAN_SIZE = 4
    COUNT_ROW_SIZE = 23
    READER_SIZE = 21
    READER_LEFT = 1
    ENTRY_VERSION = 1
    ENTRY_SIZE = 9
    OP_SIZE = 5
    ENQUEUE_SIZE = 52
    PRODUCER_SIZE = 9
    CONSUMER_SIZE = 20
    RANGE_SIZE = 12

    ENQUEUE = 1
    SETTLE = 2
    PURGE = 6
    DEAD_SETTLED_OP = 12
    PURGE_ONCE = 14
    ORIGINS = 17
    PERSISTENT = 1
    NUMBERED = 4
    KNOWN_FLAGS = 7
    BY_ACTORS = 1
    WAITED_FOR = 2
    DIED_BEFORE = 4
    DIED_EACH = 8

    DEAD_SETTLED = 5
    SETTLED = 6
    PURGED = 7
    DELETED = 8
    DONE = 256
    BACK = 512

    RECORD_COLUMNS = 10
    PUBLISH_COLUMNS = 25
    ORIGIN_COLUMNS = 13
    SETTLE_COLUMNS = 12
    COUNT_COLUMNS = 9
    READER_COLUMNS = 6
    EVENT_COLUMNS = 9
    GATHERED_COLUMNS = 10
    IS_TIMED = 0x10000
    FIRST_ROWS = 256
    CACHE_LINE = 64
    PAGE = 4096

    FILE_BITS = 40
    HEADS_MAX = 255

cdef int64_t UNKNOWN = -1
cdef uint64_t SIGNED_END = <uint64_t>1 << 63
cdef uint64_t TIME_MS_MAX = ((<uint64_t>1 << 63) - 1) // 1000


cdef inline bint is_known_time(uint64_t time_ms) noexcept nogil:
    return time_ms <= TIME_MS_MAX


# Records.


cdef struct Place:
    uint64_t base
    const uint8_t *log_id   # NULL: the file is none of a log
    uint64_t file
    int64_t commit
    int64_t time


cdef bint belongs(const uint8_t *head, uint64_t size, uint64_t position, Place *place) noexcept nogil:
    cdef const uint8_t *payload = head + HEADER_SIZE
    cdef uint8_t kind = head[8]
    cdef uint64_t marked, follows
    if position == 0:
        return (
            kind == ROLL and size == ROLL_SIZE and memcmp(payload, place.log_id, LOG_ID_SIZE) == 0
            and get_le(payload + 16, 8) == place.file
        )
    if kind != MARK:
        return kind >= FIRST_KIND_OF_WRITERS
    if size != MARK_SIZE and size != TIMED_MARK_SIZE:
        return False
    if memcmp(payload, place.log_id, LOG_ID_SIZE) != 0:
        return False
    if get_le(payload + 16, 8) != place.file or get_le(payload + 24, 8) != position:
        return False
    marked = get_le(payload + 48, 8)
    if marked >= SIGNED_END:
        return False
    follows = marked - 1 if get_le(payload + 56, 8) == 1 else marked
    return place.commit == UNKNOWN or <int64_t>follows == place.commit


cdef void take_mark(const uint8_t *payload, uint64_t size, Place *place) noexcept nogil:
    cdef uint64_t time = get_le(payload + MARK_SIZE, 8) if size == TIMED_MARK_SIZE else 0
    place.commit = <int64_t>get_le(payload + 48, 8)
    place.time = <int64_t>time if 0 < time < SIGNED_END else UNKNOWN


def records(buffer, Py_ssize_t start, Py_ssize_t end, uint64_t payload_max, place):
    """See native/log_columns.py."""
    cdef Py_buffer view
    cdef const uint8_t *bytes_
    cdef const uint8_t *head
    cdef uint64_t position, size, rows = 0, row
    cdef int reason
    cdef Place at, begun
    cdef Column columns[RECORD_COLUMNS]
    cdef bytes log_id = place[1]
    if payload_max >= <uint64_t>1 << 31:
        raise ValueError(f"payloads of {payload_max} bytes: 2^31 - 1 is the most")
    at.base, at.file, at.commit, at.time = place[0], place[2], place[3], place[4]
    at.log_id = <const uint8_t *>PyBytes_AS_STRING(log_id) if len(log_id) >= LOG_ID_SIZE else NULL
    begun = at
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= start <= end <= view.len:
            raise ValueError(f"cannot scan from {start} to {end} in a buffer of {view.len} bytes")
        bytes_ = <const uint8_t *>view.buf
        position = <uint64_t>start
        while True:
            reason = look_at(bytes_, position, <uint64_t>end, payload_max)
            if reason != WHOLE:
                break
            head = bytes_ + position
            size = get_le(head + 4, 4)
            if at.log_id != NULL:
                if not belongs(head, size, at.base + position, &at):
                    reason = MISPLACED
                    break
                if head[8] == MARK:
                    take_mark(head + HEADER_SIZE, size, &at)
            position += HEADER_SIZE + size
            rows += 1
        buffers = (
            new_column(&columns[0], INT64, False, rows), new_column(&columns[1], INT32, False, rows),
            new_column(&columns[2], INT32, False, rows), new_column(&columns[3], INT32, False, rows),
            new_column(&columns[4], INT64, False, rows), new_column(&columns[5], INT64, False, rows),
            new_column(&columns[6], INT64, False, rows), new_column(&columns[7], INT32, False, rows),
            new_column(&columns[8], INT64, True, rows), new_column(&columns[9], INT64, True, rows),
        )
        head = bytes_ + start
        for row in range(rows):
            size = get_le(head + 4, 4)
            if begun.log_id != NULL and head[8] == MARK:
                take_mark(head + HEADER_SIZE, size, &begun)
            put64(&columns[0], row, begun.base + <uint64_t>(head - bytes_))
            put32(&columns[1], row, head[8])
            put32(&columns[2], row, head[9])
            put32(&columns[3], row, get_le(head + 10, 2))
            put64(&columns[4], row, get_le(head + 12, 4))
            put64(&columns[5], row, get_le(head + 16, 8))
            put64(&columns[6], row, get_le(head + 24, 8))
            put32(&columns[7], row, size)
            maybe64(&columns[8], row, begun.commit != UNKNOWN, <uint64_t>begun.commit)
            maybe64(&columns[9], row, begun.time != UNKNOWN, <uint64_t>begun.time)
            head += HEADER_SIZE + size
        return rows, finished(columns, buffers, rows), position, reason, at.commit, at.time
    finally:
        PyBuffer_Release(&view)


# Records that were found, one after the other.


cdef struct Record:
    uint64_t offset
    bint timed
    uint64_t time
    uint64_t kind
    uint64_t flags
    uint64_t term
    uint64_t writer
    uint64_t index
    const uint8_t *payload
    uint64_t size


cdef class Records:
    """The records of a table, and the bytes that they are in."""

    cdef object keep
    cdef Py_buffer view
    cdef bint viewed
    cdef uint64_t base, rows
    cdef const uint8_t *offsets
    cdef const uint8_t *kinds
    cdef const uint8_t *flags
    cdef const uint8_t *terms
    cdef const uint8_t *writers
    cdef const uint8_t *indexes
    cdef const uint8_t *sizes
    cdef const uint8_t *times
    cdef const uint8_t *timed
    cdef const uint8_t *groups
    cdef uint64_t group_count

    def __cinit__(self, buffer, uint64_t base, found, bytes queue_groups):
        self.viewed = False
        self.rows = found[0]
        self.base = base
        columns = found[1]
        self.keep = (columns, queue_groups)
        self.offsets = column_at(columns, 0, INT64, self.rows)
        self.kinds = column_at(columns, 1, INT32, self.rows)
        self.flags = column_at(columns, 3, INT32, self.rows)
        self.terms = column_at(columns, 4, INT64, self.rows)
        self.writers = column_at(columns, 5, INT64, self.rows)
        self.indexes = column_at(columns, 6, INT64, self.rows)
        self.sizes = column_at(columns, 7, INT32, self.rows)
        self.times = column_at(columns, 9, INT64, self.rows)
        bits = columns[9][0]
        if bits is not None and <uint64_t>len(<bytes>bits) < (self.rows + 7) // 8:
            raise ValueError(f"a column of {self.rows} rows has validity for {len(bits) * 8}")
        self.timed = NULL
        if bits is not None:
            self.timed = <const uint8_t *>PyBytes_AS_STRING(<bytes>bits)
        self.groups = <const uint8_t *>PyBytes_AS_STRING(queue_groups)
        self.group_count = <uint64_t>len(queue_groups) // 8
        PyObject_GetBuffer(buffer, &self.view, PyBUF_SIMPLE)
        self.viewed = True
        self.check()

    def __dealloc__(self):
        if self.viewed:
            PyBuffer_Release(&self.view)

    cdef int check(self) except -1:
        cdef uint64_t row, start, size, length = <uint64_t>self.view.len
        for row in range(self.rows):
            start = get_le(self.offsets + row * 8, 8) - self.base
            size = get_le(self.sizes + row * 4, 4) + HEADER_SIZE
            if start > length or size > length - start:
                raise ValueError(
                    f"the record at {<int64_t>(start + self.base)} is not in the {length} bytes at {self.base}"
                )
        return 0

    cdef void take(self, uint64_t row, Record *record) noexcept:
        record.offset = get_le(self.offsets + row * 8, 8)
        record.timed = self.timed == NULL or (self.timed[row >> 3] >> (row & 7)) & 1
        record.time = get_le(self.times + row * 8, 8)
        record.kind = get_le(self.kinds + row * 4, 4)
        record.flags = get_le(self.flags + row * 4, 4)
        record.term = get_le(self.terms + row * 8, 8)
        record.writer = get_le(self.writers + row * 8, 8)
        record.index = get_le(self.indexes + row * 8, 8)
        record.payload = <const uint8_t *>self.view.buf + (record.offset - self.base) + HEADER_SIZE
        record.size = get_le(self.sizes + row * 4, 4)

    cdef bint is_named(self, uint64_t group) noexcept:
        cdef uint64_t low = 0, high = self.group_count, middle, found
        while low < high:
            middle = (low + high) // 2
            found = get_le(self.groups + middle * 8, 8)
            if found == group:
                return True
            if found < group:
                low = middle + 1
            else:
                high = middle
        return False


cdef const uint8_t *column_at(tuple columns, Py_ssize_t number, uint64_t width, uint64_t rows) except NULL:
    cdef bytes values = columns[number][1]
    if <uint64_t>len(values) < rows * width:
        raise ValueError(f"column {number} has {len(values)} bytes for {rows} rows of {width}")
    return <const uint8_t *>PyBytes_AS_STRING(values)


# Entries of quorum queues.


cdef struct Pack:
    const uint8_t *lengths
    const uint8_t *data     # of the next entry
    uint64_t count
    uint64_t number         # of the next entry


cdef struct Op:
    uint64_t index
    uint64_t time_ms
    uint64_t off
    uint8_t kind
    const uint8_t *payload
    uint64_t size


cdef struct Ops:
    Pack pack
    uint64_t first
    const uint8_t *entry    # NULL: the next one is to be taken
    uint64_t length
    uint64_t off


cdef bint begin_ops(Ops *ops, Record *record) noexcept nogil:
    """Whether the record is a pack of entries that are commands."""
    return record.flags == COMMAND and begin_entries(ops, record)


cdef bint begin_entries(Ops *ops, Record *record) noexcept nogil:
    """Whether the record is a pack of entries."""
    cdef uint64_t count, number, total
    if record.size < 4:
        return False
    count = get_le(record.payload, 4)
    if count == 0 or count > (record.size - 4) // 4:
        return False
    total = 4 + 4 * count
    for number in range(count):
        total += get_le(record.payload + 4 + 4 * number, 4)
    if total != record.size:
        return False
    ops.pack.lengths = record.payload + 4
    ops.pack.data = record.payload + 4 + 4 * count
    ops.pack.count = count
    ops.pack.number = 0
    ops.first = record.index
    ops.entry = NULL
    return True


cdef bint next_entry(Ops *ops) noexcept nogil:
    cdef Pack *pack = &ops.pack
    while pack.number < pack.count:
        ops.entry = pack.data
        ops.length = get_le(pack.lengths + 4 * pack.number, 4)
        pack.data += ops.length
        pack.number += 1
        if ops.length >= ENTRY_SIZE and ops.entry[0] == ENTRY_VERSION:
            ops.off = ENTRY_SIZE
            return True
    return False


cdef bint next_op(Ops *ops, Op *op) noexcept nogil:
    cdef uint64_t size
    while ops.entry != NULL or next_entry(ops):
        if ops.length - ops.off >= OP_SIZE:
            size = get_le(ops.entry + ops.off + 1, 4)
            if size <= ops.length - ops.off - OP_SIZE:
                op.index = ops.first + ops.pack.number - 1
                op.time_ms = get_le(ops.entry + 1, 8)
                op.off = ops.off
                op.kind = ops.entry[ops.off]
                op.payload = ops.entry + ops.off + OP_SIZE
                op.size = size
                ops.off += OP_SIZE + size
                return True
        ops.entry = NULL
    return False


# Publishes.


cdef struct Run:
    uint64_t count, body_bytes, stored
    const uint8_t *exchange
    const uint8_t *key
    const uint8_t *producer
    uint64_t exchange_len, key_len, producer_len
    uint8_t persistent, priority
    bint expires, numbered, of_session
    uint64_t expires_at, node, incarnation, sequence, producer_no
    const uint8_t *content
    bint says_confirm, confirm
    const uint8_t *death    # NULL: it is no dead letter, as far as the log says
    const uint8_t *deaths   # NULL: its messages have not died in places of their own
    uint64_t death_count
    const uint8_t *parts    # NULL: who published is not said
    uint64_t part_count


cdef bint classic_run(Record *record, Run *run) noexcept nogil:
    """The run of a CLASSIC_PUBLISH; its queues begin at PUBLISHED_SIZE."""
    cdef const uint8_t *p = record.payload
    cdef uint64_t head_len, at
    if record.size < PUBLISHED_SIZE:
        return False
    head_len = get_le(p, 2)
    at = PUBLISHED_SIZE + PAIR_SIZE * get_le(p + 2, 2)
    if head_len > record.size or at >= head_len:
        return False
    run.exchange_len = p[at]
    run.exchange = p + at + 1
    at += 1 + run.exchange_len
    if at >= head_len:
        return False
    run.key_len = p[at]
    run.key = p + at + 1
    at += 1 + run.key_len
    if at > head_len:
        return False
    run.priority = p[5]
    run.count = get_le(p + 6, 4)
    origins_of(run, p[4], p + at, head_len - at)
    run.body_bytes = get_le(p + 10, 8)
    run.expires_at = get_le(p + 18, 8)
    run.expires = run.expires_at != <uint64_t>-1
    run.persistent = 1
    run.of_session = run.numbered = False
    run.content = p + head_len
    run.stored = record.size - head_len
    return True


cdef void origins_of(Run *run, uint8_t flags, const uint8_t *p, uint64_t left) noexcept nogil:
    """What the head of a run says behind its names."""
    run.death = run.deaths = run.parts = NULL
    run.part_count = run.death_count = 0
    run.says_confirm = flags & BY_ACTORS
    run.confirm = (flags & WAITED_FOR) != 0
    if flags & DIED_EACH:
        run.deaths = p
        run.death_count = min(run.count, left // DEATH_SIZE)
        return
    if flags & DIED_BEFORE:
        if left < DEATH_SIZE:
            return
        run.death = p
        p += DEATH_SIZE
        left -= DEATH_SIZE
    if flags & BY_ACTORS:
        run.parts = p
        run.part_count = left // PART_SIZE


cdef bint quorum_run(Op *op, Run *run) noexcept nogil:
    cdef const uint8_t *p = op.payload
    cdef uint64_t at, expiration
    cdef uint8_t flags
    if op.size < ENQUEUE_SIZE:
        return False
    run.node = get_le(p, 4)
    run.incarnation = get_le(p + 4, 8)
    run.sequence = get_le(p + 12, 8)
    run.count = get_le(p + 28, 4)
    run.body_bytes = get_le(p + 32, 8)
    expiration = get_le(p + 40, 8)
    flags = p[48]
    run.priority = p[49]
    run.exchange_len = p[50]
    run.key_len = p[51]
    run.exchange = p + ENQUEUE_SIZE
    run.key = run.exchange + run.exchange_len
    at = ENQUEUE_SIZE + run.exchange_len + run.key_len
    run.numbered = flags & NUMBERED
    if run.numbered:
        if at > op.size or op.size - at < PRODUCER_SIZE:
            return False
        run.producer_no = get_le(p + at, 8)
        run.producer_len = p[at + 8]
        run.producer = p + at + PRODUCER_SIZE
        at += PRODUCER_SIZE + run.producer_len
    if at > op.size or flags > KNOWN_FLAGS:
        return False
    run.persistent = flags & PERSISTENT
    run.expires = op.time_ms <= TIME_MS_MAX and expiration <= TIME_MS_MAX - op.time_ms
    run.expires_at = op.time_ms + expiration
    run.of_session = True
    run.says_confirm = False
    run.death = NULL
    run.content = p + at
    run.stored = op.size - at
    return True


cdef class Publishes:
    """The table of runs: counts first, then fills."""

    cdef uint64_t rows, row, exchange_bytes, key_bytes, producer_bytes
    cdef bint filling
    cdef Column columns[PUBLISH_COLUMNS]
    cdef tuple buffers

    cdef int begin(self) except -1:
        cdef uint64_t rows = self.rows
        cdef Column *c = self.columns
        self.buffers = (
            new_column(&c[0], INT64, False, rows), new_column(&c[1], INT64, True, rows),
            new_column(&c[2], INT64, False, rows), new_column(&c[3], INT64, False, rows),
            new_column(&c[4], INT32, False, rows), new_column(&c[5], INT64, False, rows),
            new_column(&c[6], INT64, False, rows), new_column(&c[7], INT64, False, rows),
            new_column(&c[8], BINARY, False, rows, self.exchange_bytes),
            new_column(&c[9], BINARY, False, rows, self.key_bytes),
            new_column(&c[10], INT8, False, rows), new_column(&c[11], INT32, False, rows),
            new_column(&c[12], INT64, True, rows), new_column(&c[13], INT64, True, rows),
            new_column(&c[14], INT64, True, rows), new_column(&c[15], INT64, True, rows),
            new_column(&c[16], BINARY, True, rows, self.producer_bytes),
            new_column(&c[17], INT64, True, rows), new_column(&c[18], INT64, False, rows),
            new_column(&c[19], INT8, True, rows), new_column(&c[20], INT64, True, rows),
            new_column(&c[21], INT64, True, rows), new_column(&c[22], INT64, True, rows),
            new_column(&c[23], INT64, True, rows), new_column(&c[24], INT64, True, rows),
        )
        self.filling = True
        return 0

    cdef void add(
        self, Record *record, Run *run, bint timed, uint64_t time, uint64_t queue, uint64_t pos, uint64_t off
    ) noexcept:
        cdef Column *c = self.columns
        cdef uint64_t row = self.row
        if not self.filling:
            self.rows += 1
            self.exchange_bytes += run.exchange_len
            self.key_bytes += run.key_len
            if run.numbered:
                self.producer_bytes += run.producer_len
            return
        self.row += 1
        put64(&c[0], row, record.offset)
        maybe64(&c[1], row, timed, time)
        put64(&c[2], row, queue)
        put64(&c[3], row, pos)
        put32(&c[4], row, off)
        put64(&c[5], row, run.count)
        put64(&c[6], row, run.body_bytes)
        put64(&c[7], row, run.stored)
        put_bytes(&c[8], row, run.exchange, run.exchange_len)
        put_bytes(&c[9], row, run.key, run.key_len)
        put8(&c[10], row, run.persistent)
        put32(&c[11], row, run.priority)
        maybe64(&c[12], row, run.expires, run.expires_at)
        maybe64(&c[13], row, run.of_session, run.node)
        maybe64(&c[14], row, run.of_session, run.incarnation)
        maybe64(&c[15], row, run.of_session, run.sequence)
        if run.numbered:
            put_bytes(&c[16], row, run.producer, run.producer_len)
        else:
            null_bytes(&c[16], row)
        maybe64(&c[17], row, run.numbered, run.producer_no)
        put64(&c[18], row, record.offset + HEADER_SIZE + <uint64_t>(run.content - record.payload))
        maybe8(&c[19], row, run.says_confirm, run.confirm)
        maybe64(&c[20], row, run.death != NULL, get_le(run.death, 8) if run.death != NULL else 0)
        maybe64(&c[21], row, run.death != NULL, get_le(run.death + 8, 8) if run.death != NULL else 0)
        maybe64(&c[22], row, run.death != NULL, get_le(run.death + 16, 4) if run.death != NULL else 0)
        maybe64(&c[23], row, run.death != NULL, get_le(run.death + 20, 4) if run.death != NULL else 0)
        maybe64(&c[24], row, run.death != NULL, run.death[24] if run.death != NULL else 0)

    cdef void walk(self, Records found) noexcept:
        cdef Record record
        cdef Run run
        cdef Ops ops
        cdef Op op
        cdef const uint8_t *queue
        cdef uint64_t row, number
        for row in range(found.rows):
            found.take(row, &record)
            if record.kind == CLASSIC_PUBLISH:
                if classic_run(&record, &run):
                    queue = record.payload + PUBLISHED_SIZE
                    for number in range(get_le(record.payload + 2, 2)):
                        self.add(
                            &record, &run, record.timed, record.time, get_le(queue, 8), get_le(queue + 8, 8), 0
                        )
                        queue += PAIR_SIZE
            elif record.kind == RAFT_ENTRIES and found.is_named(record.writer) and begin_ops(&ops, &record):
                while next_op(&ops, &op):
                    if op.kind == ENQUEUE and quorum_run(&op, &run):
                        self.add(
                            &record, &run, is_known_time(op.time_ms), op.time_ms * 1000, record.writer, op.index, op.off
                        )


def publishes(buffer, uint64_t base, found, bytes queue_groups):
    """See native/log_columns.py."""
    cdef Records source = Records(buffer, base, found, queue_groups)
    cdef Publishes table = Publishes()
    table.walk(source)
    table.begin()
    table.walk(source)
    return table.rows, finished(table.columns, table.buffers, table.rows)


# Origins.


cdef struct Part:
    uint64_t actor, number, count
    bint waited_for
    const uint8_t *death    # NULL: it is no dead letter


cdef const uint8_t *next_part(const uint8_t *p, const uint8_t *end, Part *part) noexcept nogil:
    """Behind the part of an ORIGINS that begins there; NULL if there is none."""
    if end - p < ORIGIN_SIZE:
        return NULL
    part.actor = get_le(p, 4)
    part.number = get_le(p + 4, 8)
    part.count = get_le(p + 12, 4)
    part.waited_for = p[16] & ORIGIN_WAITED_FOR
    part.death = NULL
    if not p[16] & ORIGIN_DIED:
        return p + ORIGIN_SIZE
    if end - p < ORIGIN_SIZE + DEATH_SIZE:
        return NULL
    part.death = p + ORIGIN_SIZE
    return p + ORIGIN_SIZE + DEATH_SIZE


cdef class OriginsTable:
    """The table of who published: counts first, then fills."""

    cdef uint64_t rows, row
    cdef bint filling
    cdef Column columns[ORIGIN_COLUMNS]
    cdef tuple buffers

    cdef int begin(self) except -1:
        cdef uint64_t rows = self.rows
        cdef Column *c = self.columns
        self.buffers = (
            new_column(&c[0], INT64, False, rows), new_column(&c[1], INT64, True, rows),
            new_column(&c[2], INT32, False, rows), new_column(&c[3], INT64, False, rows),
            new_column(&c[4], INT64, False, rows), new_column(&c[5], INT64, False, rows),
            new_column(&c[6], INT64, True, rows), new_column(&c[7], INT8, False, rows),
            new_column(&c[8], INT64, True, rows), new_column(&c[9], INT64, True, rows),
            new_column(&c[10], INT64, True, rows), new_column(&c[11], INT64, True, rows),
            new_column(&c[12], INT64, True, rows),
        )
        self.filling = True
        return 0

    cdef void add(self, uint64_t offset, bint of_entry, uint64_t entry, uint64_t off, uint64_t nth, Part *part) noexcept:
        cdef Column *c = self.columns
        cdef uint64_t row = self.row
        cdef const uint8_t *death = part.death
        cdef bint died = death != NULL
        if not self.filling:
            self.rows += 1
            return
        self.row += 1
        put64(&c[0], row, offset)
        maybe64(&c[1], row, of_entry, entry)
        put32(&c[2], row, off)
        put64(&c[3], row, nth)
        put64(&c[4], row, part.count)
        put64(&c[5], row, part.actor)
        maybe64(&c[6], row, part.number != 0, part.number)
        put8(&c[7], row, part.waited_for)
        maybe64(&c[8], row, died, get_le(death, 8) if died else 0)
        maybe64(&c[9], row, died, get_le(death + 8, 8) if died else 0)
        maybe64(&c[10], row, died, get_le(death + 16, 4) if died else 0)
        maybe64(&c[11], row, died, get_le(death + 20, 4) if died else 0)
        maybe64(&c[12], row, died, death[24] if died else 0)

    cdef void classic(self, Record *record, Run *run) noexcept:
        cdef uint64_t number, nth = 0
        cdef const uint8_t *p = run.parts
        cdef Part part
        part.waited_for = run.confirm
        if run.deaths != NULL:
            part.actor = part.number = 0
            part.count = 1
            for nth in range(run.death_count):
                part.death = run.deaths + nth * DEATH_SIZE
                self.add(record.offset, False, 0, 0, nth, &part)
            return
        part.death = run.death
        for number in range(run.part_count):
            part.actor = get_le(p, 4)
            part.number = get_le(p + 4, 8)
            part.count = get_le(p + 12, 4)
            self.add(record.offset, False, 0, 0, nth, &part)
            nth += part.count
            p += PART_SIZE

    cdef void entries(self, Record *record, Ops *ops) noexcept:
        cdef Op op
        cdef Part part
        cdef uint64_t entry = 0, left, nth
        cdef bint begun = False
        cdef const uint8_t *p = NULL
        cdef const uint8_t *end = NULL
        cdef const uint8_t *behind
        while next_op(ops, &op):
            if not begun or op.index != entry:
                begun, entry = True, op.index
                p = end = NULL
            if op.kind == ORIGINS:
                p, end = op.payload, op.payload + op.size
            elif op.kind == ENQUEUE and op.size >= ENQUEUE_SIZE:
                left, nth = get_le(op.payload + 28, 4), 0
                while left:
                    behind = next_part(p, end, &part)
                    if behind == NULL or part.count == 0 or part.count > left:
                        break
                    self.add(record.offset, True, op.index, op.off, nth, &part)
                    nth += part.count
                    left -= part.count
                    p = behind

    cdef void walk(self, Records found) noexcept:
        cdef Record record
        cdef Run run
        cdef Ops ops
        cdef uint64_t row
        for row in range(found.rows):
            found.take(row, &record)
            if record.kind == CLASSIC_PUBLISH:
                if classic_run(&record, &run):
                    self.classic(&record, &run)
            elif record.kind == RAFT_ENTRIES and found.is_named(record.writer) and begin_ops(&ops, &record):
                self.entries(&record, &ops)


def origins(buffer, uint64_t base, found, bytes queue_groups):
    """See native/log_columns.py."""
    cdef Records source = Records(buffer, base, found, queue_groups)
    cdef OriginsTable table = OriginsTable()
    table.walk(source)
    table.begin()
    table.walk(source)
    return table.rows, finished(table.columns, table.buffers, table.rows)


# Settles.


cdef class Settles:
    """The table of what was settled: counts first, then fills."""

    cdef uint64_t rows, row
    cdef bint filling
    cdef Column columns[SETTLE_COLUMNS]
    cdef tuple buffers

    cdef int begin(self) except -1:
        cdef uint64_t rows = self.rows
        cdef Column *c = self.columns
        self.buffers = (
            new_column(&c[0], INT64, False, rows), new_column(&c[1], INT64, True, rows),
            new_column(&c[2], INT64, False, rows), new_column(&c[3], INT64, False, rows),
            new_column(&c[4], INT32, False, rows), new_column(&c[5], INT32, False, rows),
            new_column(&c[6], INT64, True, rows), new_column(&c[7], INT64, True, rows),
            new_column(&c[8], INT64, True, rows), new_column(&c[9], INT64, True, rows),
            new_column(&c[10], INT64, True, rows), new_column(&c[11], INT64, True, rows),
        )
        self.filling = True
        return 0

    cdef void add(
        self, uint64_t offset, bint timed, uint64_t time, uint64_t queue, uint64_t pos, uint64_t off, uint64_t outcome,
        const uint8_t *consumer, bint ranged, uint64_t first, uint64_t count, uint64_t actor=0,
    ) noexcept:
        cdef Column *c = self.columns
        cdef uint64_t row = self.row
        cdef bint consumed = consumer != NULL
        if not self.filling:
            self.rows += 1
            return
        self.row += 1
        put64(&c[0], row, offset)
        maybe64(&c[1], row, timed, time)
        put64(&c[2], row, queue)
        put64(&c[3], row, pos)
        put32(&c[4], row, off)
        put32(&c[5], row, outcome)
        maybe64(&c[6], row, consumed, get_le(consumer, 4) if consumed else 0)
        maybe64(&c[7], row, consumed, get_le(consumer + 4, 8) if consumed else 0)
        maybe64(&c[8], row, consumed, get_le(consumer + 12, 8) if consumed else 0)
        maybe64(&c[9], row, ranged, first)
        maybe64(&c[10], row, ranged, count)
        maybe64(&c[11], row, actor != 0, actor)

    cdef void classic(self, Record *record) noexcept:
        cdef const uint8_t *p = record.payload
        cdef uint64_t queue, at = 8, first
        cdef uint64_t outcome = SETTLED if record.kind == CLASSIC_SETTLE else PURGED
        if record.size < 8:
            return
        queue = get_le(p, 8)
        if record.kind == CLASSIC_QUEUE_DELETED:
            self.add(record.offset, record.timed, record.time, queue, record.index, 0, DELETED, NULL, False, 0, 0)
            return
        while record.size - at >= PAIR_SIZE:
            first = get_le(p + at, 8)
            self.add(
                record.offset, record.timed, record.time, queue, record.index, 0, outcome, NULL, True,
                first, get_le(p + at + 8, 8) - first,
            )
            at += PAIR_SIZE

    cdef void reasoned(self, Record *record) noexcept:
        cdef const uint8_t *p = record.payload
        cdef uint64_t at = REASONED_SIZE
        if record.size < REASONED_SIZE:
            return
        while record.size - at >= RANGE_SIZE:
            self.add(
                record.offset, record.timed, record.time, get_le(p, 8), record.index, 0,
                p[12] + (DONE if record.kind == CLASSIC_DONE else BACK), NULL, True,
                get_le(p + at, 8), get_le(p + at + 8, 4), get_le(p + 8, 4),
            )
            at += RANGE_SIZE

    cdef void quorum(self, Record *record, Op *op) noexcept:
        cdef const uint8_t *p = op.payload
        cdef const uint8_t *consumer = NULL
        cdef uint64_t at = 0, outcome = DEAD_SETTLED
        cdef bint timed = is_known_time(op.time_ms)
        cdef uint64_t time = op.time_ms * 1000
        if op.kind == PURGE or (op.kind == PURGE_ONCE and op.size >= CONSUMER_SIZE):
            consumer = p if op.kind == PURGE_ONCE else NULL
            self.add(
                record.offset, timed, time, record.writer, op.index, op.off, PURGED, consumer, False, 0, 0
            )
            return
        if op.kind == SETTLE and op.size > CONSUMER_SIZE and p[CONSUMER_SIZE] < DEAD_SETTLED:
            consumer = p
            outcome = p[CONSUMER_SIZE]
            at = CONSUMER_SIZE + 1
        elif op.kind != DEAD_SETTLED_OP:
            return
        while op.size - at >= RANGE_SIZE:
            self.add(
                record.offset, timed, time, record.writer, op.index, op.off, outcome, consumer, True,
                get_le(p + at, 8), get_le(p + at + 8, 4),
            )
            at += RANGE_SIZE

    cdef void walk(self, Records found) noexcept:
        cdef Record record
        cdef Ops ops
        cdef Op op
        cdef uint64_t row
        for row in range(found.rows):
            found.take(row, &record)
            if CLASSIC_SETTLE <= record.kind <= CLASSIC_QUEUE_DELETED:
                self.classic(&record)
            elif record.kind == CLASSIC_DONE or record.kind == CLASSIC_BACK:
                self.reasoned(&record)
            elif record.kind == RAFT_ENTRIES and found.is_named(record.writer) and begin_ops(&ops, &record):
                while next_op(&ops, &op):
                    self.quorum(&record, &op)


def settles(buffer, uint64_t base, found, bytes queue_groups):
    """See native/log_columns.py."""
    cdef Records source = Records(buffer, base, found, queue_groups)
    cdef Settles table = Settles()
    table.walk(source)
    table.begin()
    table.walk(source)
    return table.rows, finished(table.columns, table.buffers, table.rows)


# Counts.


cdef const uint8_t *next_count(const uint8_t *row, const uint8_t *end) noexcept nogil:
    """Behind the row of a COUNTS that begins there; NULL if there is none."""
    cdef const uint8_t *behind
    if end - row < COUNT_ROW_SIZE:
        return NULL
    behind = row + COUNT_ROW_SIZE + row[21] + row[22]
    return behind if behind <= end else NULL


def counts(buffer, uint64_t base, found):
    """See native/log_columns.py."""
    cdef Records source = Records(buffer, base, found, b"")
    cdef Record record
    cdef Column c[COUNT_COLUMNS]
    cdef uint64_t at, rows = 0, row = 0, exchange_bytes = 0, key_bytes = 0, actor
    cdef const uint8_t *p
    cdef const uint8_t *end
    cdef const uint8_t *behind
    for at in range(source.rows):
        source.take(at, &record)
        if record.kind != COUNTS or record.size < SPAN_SIZE:
            continue
        p, end = record.payload + SPAN_SIZE, record.payload + record.size
        while True:
            behind = next_count(p, end)
            if behind == NULL:
                break
            exchange_bytes += p[21]
            key_bytes += p[22]
            rows += 1
            p = behind
    buffers = (
        new_column(&c[0], INT64, False, rows), new_column(&c[1], INT64, True, rows), new_column(&c[2], INT64, False, rows),
        new_column(&c[3], INT64, True, rows), new_column(&c[4], INT32, False, rows), new_column(&c[5], INT64, False, rows),
        new_column(&c[6], INT64, False, rows), new_column(&c[7], BINARY, False, rows, exchange_bytes),
        new_column(&c[8], BINARY, False, rows, key_bytes),
    )
    for at in range(source.rows):
        source.take(at, &record)
        if record.kind != COUNTS or record.size < SPAN_SIZE:
            continue
        p, end = record.payload + SPAN_SIZE, record.payload + record.size
        while True:
            behind = next_count(p, end)
            if behind == NULL:
                break
            actor = get_le(p, 4)
            put64(&c[0], row, record.offset)
            maybe64(&c[1], row, record.timed, record.time)
            put64(&c[2], row, get_le(record.payload, 4))
            maybe64(&c[3], row, actor != 0, actor)
            put32(&c[4], row, p[20])
            put64(&c[5], row, get_le(p + 4, 8))
            put64(&c[6], row, get_le(p + 12, 8))
            put_bytes(&c[7], row, p + COUNT_ROW_SIZE, p[21])
            put_bytes(&c[8], row, p + COUNT_ROW_SIZE + p[21], p[22])
            row += 1
            p = behind
    return rows, finished(c, buffers, rows)


# Readers of streams.


def readers(buffer, uint64_t base, found):
    """See native/log_columns.py."""
    cdef Records source = Records(buffer, base, found, b"")
    cdef Record record
    cdef Column c[READER_COLUMNS]
    cdef uint64_t at, number, rows = 0, row = 0
    cdef const uint8_t *p
    for at in range(source.rows):
        source.take(at, &record)
        if record.kind == STREAM_READERS:
            rows += record.size // READER_SIZE
    buffers = (
        new_column(&c[0], INT64, False, rows), new_column(&c[1], INT64, True, rows), new_column(&c[2], INT64, False, rows),
        new_column(&c[3], INT64, False, rows), new_column(&c[4], INT64, False, rows), new_column(&c[5], INT8, False, rows),
    )
    for at in range(source.rows):
        source.take(at, &record)
        if record.kind != STREAM_READERS:
            continue
        p = record.payload
        for number in range(record.size // READER_SIZE):
            put64(&c[0], row, record.offset)
            maybe64(&c[1], row, record.timed, record.time)
            put64(&c[2], row, get_le(p, 4))
            put64(&c[3], row, get_le(p + 4, 8))
            put64(&c[4], row, get_le(p + 12, 8))
            put8(&c[5], row, p[20] & READER_LEFT)
            row += 1
            p += READER_SIZE
    return rows, finished(c, buffers, rows)


# Events.


cdef uint64_t content_at(const uint8_t *p, uint64_t size) noexcept nogil:
    """Where in the payload of an ENQUEUE its content begins; behind all of it if there is none that is known."""
    cdef uint64_t at
    cdef uint8_t flags
    if size < ENQUEUE_SIZE:
        return size
    flags = p[48]
    at = ENQUEUE_SIZE + p[50] + p[51]
    if flags & NUMBERED:
        if at > size or size - at < PRODUCER_SIZE:
            return size
        at += PRODUCER_SIZE + p[at + 8]
    return at if at <= size and flags <= KNOWN_FLAGS else size


cdef uint64_t skeleton(const uint8_t *entry, uint64_t length, Column *into) noexcept nogil:
    """The size of what is left of a command without contents, which is put at the end of a column unless that is NULL; all of
    one that is no sequence of ops, of which not all is put there then."""
    cdef uint64_t off = ENTRY_SIZE, begin = 0, kept = 0, size, content
    if length < ENTRY_SIZE or entry[0] != ENTRY_VERSION:
        return length
    while length - off >= OP_SIZE:
        size = get_le(entry + off + 1, 4)
        if size > length - off - OP_SIZE:
            return length
        off += OP_SIZE
        if entry[off - OP_SIZE] == ENQUEUE:
            content = content_at(entry + off, size)
            if content < size:
                if into != NULL:
                    add_bytes(into, entry + begin, off + content - begin)
                kept += off + content - begin
                begin = off + size
        off += size
    if off != length:
        return length
    if into != NULL:
        add_bytes(into, entry + begin, length - begin)
    return kept + length - begin


cdef struct EventRow:
    uint64_t queue, place, term, at, first, size, offset, file
    uint32_t kind       # IS_TIMED with it: `at` is known
    uint32_t data_end   # in the data of all rows


cdef class EventWalk:
    """What happened to queues, in the order of the records. `add` says where a row is put."""

    cdef uint64_t file
    cdef bint filling, with_commits
    cdef EventRow *row
    cdef Column *data

    cdef bint add(
        self, Record *record, uint64_t queue, uint64_t place, uint64_t first, uint64_t data_bytes
    ) except -1:
        """False: it was counted, and nothing is put anywhere. Else a row is begun, with room for so many bytes of data."""
        return False

    cdef void put(self, Record *record, uint64_t queue, uint64_t place, uint64_t first) noexcept:
        cdef EventRow *row = self.row
        row.queue, row.place, row.first = queue, place, first
        row.term = record.term if record.kind == RAFT_ENTRIES or record.kind == RAFT_COMMIT else 0
        row.at = record.time if record.timed else 0
        row.kind = <uint32_t>record.kind | (IS_TIMED if record.timed else 0)
        row.offset, row.file = record.offset, self.file

    cdef void end_row(self, uint64_t size) noexcept:
        self.row.size = size
        self.row.data_end = <uint32_t>self.data.filled

    cdef uint64_t classic_place(self, Record *record) noexcept:
        return self.file << FILE_BITS | record.offset

    cdef int classic(self, Record *record) except -1:
        if self.add(record, get_le(record.payload, 8), self.classic_place(record), 0, record.size):
            add_bytes(self.data, record.payload, record.size)
            self.end_row(0)
        return 0

    cdef int heads(self, Record *record) except -1:
        """The head of a publish for each of its queues, as if it had gone to that one only."""
        cdef const uint8_t *p = record.payload
        cdef uint64_t head_len = get_le(p, 2), queues = get_le(p + 2, 2), number
        cdef const uint8_t *queue = p + PUBLISHED_SIZE
        cdef const uint8_t *end = queue + PAIR_SIZE * queues
        cdef uint64_t own_len = head_len - PAIR_SIZE * queues + PAIR_SIZE
        cdef uint8_t lengths[4]
        cdef Column *data
        if queues * own_len > HEADS_MAX * record.size:
            return 0
        put_le(lengths, own_len, 2)
        put_le(lengths + 2, 1, 2)
        for number in range(queues):
            if self.add(record, get_le(queue, 8), self.classic_place(record), get_le(queue + 8, 8), own_len):
                data = self.data
                add_bytes(data, lengths, 4)
                add_bytes(data, p + 4, PUBLISHED_SIZE - 4)
                add_bytes(data, queue, PAIR_SIZE)
                add_bytes(data, end, head_len - <uint64_t>(end - p))
                self.end_row(0)
            queue += PAIR_SIZE
        return 0

    cdef int entries(self, Record *record, Ops *ops) except -1:
        cdef Pack *pack = &ops.pack
        cdef uint64_t length
        while pack.number < pack.count:
            length = get_le(pack.lengths + 4 * pack.number, 4)
            self.entry(record, record.index + pack.number, pack.data, length)
            pack.data += length
            pack.number += 1
        return 0

    cdef int entry(self, Record *record, uint64_t index, const uint8_t *entry, uint64_t length) except -1:
        cdef bint is_command = record.flags == COMMAND
        cdef uint64_t kept = length, begin
        cdef Column *data
        if is_command and not self.filling:
            kept = skeleton(entry, length, NULL)
        if self.add(record, record.writer, index, record.flags, kept):
            data = self.data
            begin = data.filled
            if is_command:
                kept = skeleton(entry, length, data)
            if data.filled - begin != kept:
                data.filled = begin
                add_bytes(data, entry, length)
            self.end_row(length if kept < length else 0)
        return 0

    cdef int commit(self, Record *record) except -1:
        if self.add(record, record.writer, 0, record.index, 0):
            self.end_row(0)
        return 0

    cdef int walk(self, Records found) except -1:
        cdef Record record
        cdef Run run
        cdef Ops ops
        cdef uint64_t row
        for row in range(found.rows):
            found.take(row, &record)
            if record.kind == CLASSIC_PUBLISH:
                if classic_run(&record, &run):
                    self.heads(&record)
            elif CLASSIC_SETTLE <= record.kind <= CLASSIC_QUEUE_DELETED:
                if record.size >= 8:
                    self.classic(&record)
            elif record.kind == CLASSIC_DONE or record.kind == CLASSIC_OUT or record.kind == CLASSIC_BACK:
                if record.size >= REASONED_SIZE:
                    self.classic(&record)
            elif record.kind == CLASSIC_CHECKPOINT:
                if record.size >= CHECKPOINT_SIZE:
                    self.classic(&record)
            elif record.kind == RAFT_ENTRIES:
                if not found.is_named(record.writer) and begin_entries(&ops, &record):
                    self.entries(&record, &ops)
            elif record.kind == RAFT_COMMIT and self.with_commits:
                self.commit(&record)
        return 0


cdef void put_event(Column *c, uint64_t number, const EventRow *row) noexcept nogil:
    """All of EVENTS but the last column, and the data, whose bytes are there."""
    put64(&c[0], number, row.queue)
    put64(&c[1], number, row.place)
    put64(&c[2], number, row.term)
    put32(&c[3], number, row.kind & ~<uint32_t>IS_TIMED)
    maybe64(&c[4], number, (row.kind & IS_TIMED) != 0, row.at)
    put64(&c[5], number, row.first)
    put64(&c[7], number, row.size)


cdef class Events(EventWalk):
    """The table of them: counts first, then fills."""

    cdef uint64_t rows, data_bytes, filled
    cdef Column columns[EVENT_COLUMNS]
    cdef tuple buffers
    cdef EventRow one

    cdef int begin(self) except -1:
        cdef uint64_t rows = self.rows
        cdef Column *c = self.columns
        self.buffers = (
            new_column(&c[0], INT64, False, rows), new_column(&c[1], INT64, False, rows),
            new_column(&c[2], INT64, False, rows), new_column(&c[3], INT32, False, rows),
            new_column(&c[4], INT64, True, rows), new_column(&c[5], INT64, False, rows),
            new_column(&c[6], BINARY, False, rows, self.data_bytes), new_column(&c[7], INT64, False, rows),
            new_column(&c[8], INT64, False, rows),
        )
        self.row, self.data = &self.one, &self.columns[6]
        self.filling = True
        return 0

    cdef bint add(
        self, Record *record, uint64_t queue, uint64_t place, uint64_t first, uint64_t data_bytes
    ) except -1:
        if not self.filling:
            self.rows += 1
            self.data_bytes += data_bytes
            return False
        self.put(record, queue, place, first)
        return True

    cdef void end_row(self, uint64_t size) noexcept:
        self.one.size = size
        put_event(self.columns, self.filled, &self.one)
        end_bytes(&self.columns[6], self.filled)
        put64(&self.columns[8], self.filled, self.one.offset)
        self.filled += 1


def events(buffer, uint64_t base, found, uint64_t file, bytes other_groups):
    """See native/log_columns.py."""
    cdef Records source = Records(buffer, base, found, other_groups)
    cdef Events table = Events()
    table.file = file
    table.walk(source)
    table.begin()
    table.walk(source)
    return table.rows, finished(table.columns, table.buffers, table.rows)


# Events of many pieces.


cdef class Room:
    """Memory that grows. It begins at a line of the processor's cache that is not that of the others: large blocks of memory
    begin at the same place of a page, so what is put into many of them, row by row, would be there in turn only."""

    cdef bytearray memory
    cdef uint64_t begin, size

    def __init__(self, uint64_t number):
        self.begin = number * CACHE_LINE % PAGE
        self.give_back()

    cdef uint8_t *start(self) noexcept:
        return <uint8_t *>PyByteArray_AS_STRING(self.memory) + self.begin

    cdef int give_back(self) except -1:
        self.memory = None
        self.size = 0
        return 0

    cdef int grow(self, uint64_t used, uint64_t size) except -1:
        """What is used lies in other memory then: somebody may still look at the one before."""
        cdef bytearray before = self.memory
        self.memory = PyByteArray_FromStringAndSize(NULL, <Py_ssize_t>(self.begin + size))
        if used:
            memcpy(self.start(), PyByteArray_AS_STRING(before) + self.begin, used)
        self.size = size
        return 0

    cdef object seen(self, uint64_t size):
        return memoryview(self.memory)[self.begin:self.begin + size] if size else b""


cdef class Bucket:
    """Rows as they come: memory for each column of each bucket is more than a processor can have in view."""

    cdef Room rows, data
    cdef uint64_t count
    cdef Column filled

    def __init__(self, uint64_t number):
        self.rows, self.data = Room(2 * number), Room(2 * number + 1)
        self.filled.filled = self.count = 0

    cdef EventRow *add(self, uint64_t data_bytes) except NULL:
        """With room for so much."""
        cdef uint64_t used = self.count * sizeof(EventRow), wanted = self.filled.filled + data_bytes
        if wanted > DATA_BYTES_MAX:
            raise ValueError(f"a column would have {wanted} bytes, {DATA_BYTES_MAX} is the most")
        if used == self.rows.size:
            self.rows.grow(used, 2 * used if used else FIRST_ROWS * sizeof(EventRow))
        if wanted > self.data.size:
            self.data.grow(self.filled.filled, wanted + self.data.size)
            self.filled.data = self.data.start()
        self.count += 1
        return <EventRow *>self.rows.start() + self.count - 1

    cdef int clear(self) except -1:
        """The memory is there for what comes, unless most of it was not needed."""
        if self.count * sizeof(EventRow) < self.rows.size // 4:
            self.rows.give_back()
        if self.filled.filled < self.data.size // 4:
            self.data.give_back()
        self.filled.filled = self.count = 0
        return 0


cdef class BucketColumns:
    """The rows of one bucket after another, as columns of GATHERED."""

    cdef list rooms     # of each column but the data, then of the bits of `at`
    cdef Column columns[GATHERED_COLUMNS]

    def __init__(self):
        self.rooms = [Room(number) for number in range(GATHERED_COLUMNS + 1)]

    cdef int make_room(self, uint64_t rows) except -1:
        cdef Py_ssize_t number
        cdef Room room
        for number in range(GATHERED_COLUMNS + 1):
            room = <Room>self.rooms[number]
            if room.size < (rows + 1) * sizeof(uint64_t):
                room.grow(0, (rows + 1) * sizeof(uint64_t))
            if number < GATHERED_COLUMNS:
                self.columns[number].values = room.start()
                self.columns[number].bits = NULL
        memset(room.start(), 0, (rows + 7) // 8)
        self.columns[4].bits, self.columns[4].present = room.start(), 0
        (<int32_t *>self.columns[6].values)[0] = 0
        return 0

    cdef object table(self, Bucket bucket):
        cdef const EventRow *row = <const EventRow *>bucket.rows.start()
        cdef Column *c = self.columns
        cdef uint64_t number, written
        self.make_room(bucket.count)
        for number in range(bucket.count):
            written = 0 if row.kind & ~<uint32_t>IS_TIMED == RAFT_COMMIT else (row.file << FILE_BITS) + row.offset
            put_event(c, number, row)
            c[6].filled = row.data_end
            end_bytes(&c[6], number)
            put64(&c[8], number, written)
            put64(&c[9], number, row.file)
            row += 1
        return bucket.count, self.seen(bucket)

    cdef tuple seen(self, Bucket bucket):
        cdef list made = []
        cdef Py_ssize_t number
        cdef uint64_t rows = bucket.count, width
        for number in range(GATHERED_COLUMNS):
            width = 4 if number == 3 or number == 6 else 8
            made.append((None, (<Room>self.rooms[number]).seen(width * (rows + (number == 6)))))
        made[6] += (bucket.data.seen(bucket.filled.filled),)
        if self.columns[4].present < rows:
            made[4] = ((<Room>self.rooms[GATHERED_COLUMNS]).seen((rows + 7) // 8), made[4][1])
        return tuple(made)


cdef class EventBuckets(EventWalk):
    """See native/event_buckets.py."""

    cdef list events, commits
    cdef BucketColumns event_columns, commit_columns
    cdef uint64_t buckets

    def __init__(self, uint64_t buckets):
        self.events = [Bucket(number) for number in range(buckets)]
        self.commits = [Bucket(buckets + number) for number in range(buckets)]
        self.event_columns, self.commit_columns = BucketColumns(), BucketColumns()
        self.buckets = buckets
        self.filling = self.with_commits = True

    cdef bint add(
        self, Record *record, uint64_t queue, uint64_t place, uint64_t first, uint64_t data_bytes
    ) except -1:
        cdef list those = self.commits if record.kind == RAFT_COMMIT else self.events
        cdef Bucket bucket = <Bucket>those[<Py_ssize_t>(queue % self.buckets)]
        self.row = bucket.add(data_bytes)
        self.data = &bucket.filled
        self.put(record, queue, place, first)
        return True

    def take(self, buffer, uint64_t base, found, uint64_t file, bytes other_groups):
        """See native/event_buckets.py."""
        self.file = file
        self.walk(Records(buffer, base, found, other_groups))

    @property
    def size(self):
        """See native/event_buckets.py."""
        cdef Bucket bucket
        cdef uint64_t size = 0
        for bucket in self.events + self.commits:
            size += bucket.count * sizeof(EventRow) + bucket.filled.filled
        return size

    def tables(self, Py_ssize_t number):
        """See native/event_buckets.py."""
        cdef Bucket events = self.events[number], commits = self.commits[number]
        found = []
        if events.count:
            found.append(self.event_columns.table(events))
        if commits.count:
            found.append(self.commit_columns.table(commits))
        return found

    def clear(self):
        """See native/event_buckets.py."""
        cdef Bucket bucket
        for bucket in self.events + self.commits:
            bucket.clear()
