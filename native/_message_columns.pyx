# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of native/message_columns.py."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int64_t, uint8_t, uint64_t

from native._column_layout cimport (
    BINARY, INT32, INT64, Column, finished, maybe64, new_column, null_bytes, put32, put64, put_bytes,
)
from native._little_endian cimport get_le
from native._message_layout cimport Message, message_at

cdef enum:
    MESSAGE_COLUMNS = 6
    PROPERTY_COLUMNS = 9
    TIMESTAMP = 5
    PROPERTIES = 14
    UNKNOWN_FLAGS = 3
    SHORT = 0
    LONG = -1
    NO_COLUMN = -1

# In the order of their flags, from the highest bit: see native/message_columns.py.
cdef int[PROPERTIES] KINDS = [SHORT, SHORT, LONG, 1, 1, SHORT, SHORT, SHORT, SHORT, 8, SHORT, SHORT, SHORT, SHORT]
cdef int[PROPERTIES] COLUMNS = [0, -1, 1, -1, -1, 2, 3, -1, 4, 5, 6, 7, 8, -1]


cdef class Pieces:
    """Places in a buffer, each looked at before the first is used."""

    cdef Py_buffer view
    cdef bint viewed
    cdef object keep
    cdef uint64_t base, rows
    cdef const uint8_t *at
    cdef const uint8_t *sizes

    def __cinit__(self, buffer, uint64_t base, bytes at, bytes size):
        cdef uint64_t row, start, length
        self.viewed = False
        if len(at) != len(size):
            raise ValueError(f"{len(at) // 8} places and {len(size) // 8} sizes")
        self.base = base
        self.rows = <uint64_t>len(at) // 8
        self.keep = (at, size)
        self.at = <const uint8_t *>PyBytes_AS_STRING(at)
        self.sizes = <const uint8_t *>PyBytes_AS_STRING(size)
        PyObject_GetBuffer(buffer, &self.view, PyBUF_SIMPLE)
        self.viewed = True
        for row in range(self.rows):
            start = get_le(self.at + row * 8, 8) - base
            length = get_le(self.sizes + row * 8, 8)
            if start > <uint64_t>self.view.len or length > <uint64_t>self.view.len - start:
                raise ValueError(
                    f"{<int64_t>length} bytes at {<int64_t>(start + base)} are not in the {self.view.len} bytes at {base}"
                )

    def __dealloc__(self):
        if self.viewed:
            PyBuffer_Release(&self.view)

    cdef const uint8_t *start(self, uint64_t row) noexcept nogil:
        return <const uint8_t *>self.view.buf + (get_le(self.at + row * 8, 8) - self.base)

    cdef uint64_t size(self, uint64_t row) noexcept nogil:
        return get_le(self.sizes + row * 8, 8)


cdef bint fits(const uint8_t *content, uint64_t length, uint64_t count) noexcept nogil:
    """Whether there are just so many messages."""
    cdef Message message
    cdef uint64_t at = 0, seen = 0
    while at < length and seen < count:
        if not message_at(content, length, at, &message):
            return False
        at = message.end
        seen += 1
    return at == length and seen == count


def messages(buffer, uint64_t base, bytes at, bytes size, bytes count):
    """See native/message_columns.py."""
    cdef Pieces contents = Pieces(buffer, base, at, size)
    cdef const uint8_t *counts = <const uint8_t *>PyBytes_AS_STRING(count)
    cdef const uint8_t *content
    cdef uint64_t run, nth, rows = 0, row = 0, place, origin, length
    cdef Message message
    cdef Column columns[MESSAGE_COLUMNS]
    cdef list whole = []
    if len(count) != len(at):
        raise ValueError(f"{len(at) // 8} places and {len(count) // 8} counts")
    for run in range(contents.rows):
        if fits(contents.start(run), contents.size(run), get_le(counts + run * 8, 8)):
            whole.append(run)
            rows += get_le(counts + run * 8, 8)
    buffers = (
        new_column(&columns[0], INT32, False, rows), new_column(&columns[1], INT32, False, rows),
        new_column(&columns[2], INT64, False, rows), new_column(&columns[3], INT64, False, rows),
        new_column(&columns[4], INT64, False, rows), new_column(&columns[5], INT64, False, rows),
    )
    for run in whole:
        content = contents.start(run)
        origin = get_le(contents.at + run * 8, 8)
        length = contents.size(run)
        place = 0
        for nth in range(get_le(counts + run * 8, 8)):
            if not message_at(content, length, place, &message):
                raise AssertionError(f"message {nth} of run {run} was there when it was counted")
            put32(&columns[0], row, run)
            put32(&columns[1], row, nth)
            put64(&columns[2], row, origin + message.props)
            put64(&columns[3], row, message.props_len)
            put64(&columns[4], row, origin + message.body)
            put64(&columns[5], row, message.body_len)
            place = message.end
            row += 1
    return rows, finished(columns, buffers, rows)


# Property lists.


cdef struct Value:
    const uint8_t *at   # NULL: there is none
    uint64_t size


cdef inline uint64_t get_be(const uint8_t *p, int size) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    for i in range(size):
        value = value << 8 | p[i]
    return value


cdef void read_list(const uint8_t *props, uint64_t length, Value *values) noexcept nogil:
    """The values of a property list by their columns; none of a list that does not fit."""
    cdef int number
    for number in range(PROPERTY_COLUMNS):
        values[number].at = NULL
        values[number].size = 0
    if not read_values(props, length, values):
        for number in range(PROPERTY_COLUMNS):
            values[number].at = NULL
            values[number].size = 0


cdef bint read_values(const uint8_t *props, uint64_t length, Value *values) noexcept nogil:
    cdef uint64_t flags, place = 2, size
    cdef int number, prefix
    if length < 2:
        return False
    flags = get_be(props, 2)
    if flags & UNKNOWN_FLAGS:
        return False
    for number in range(PROPERTIES):
        if not (flags >> (15 - number)) & 1:
            continue
        prefix = 1 if KINDS[number] == SHORT else 4 if KINDS[number] == LONG else 0
        if length - place < <uint64_t>prefix:
            return False
        size = get_be(props + place, prefix) if prefix else <uint64_t>KINDS[number]
        place += prefix
        if size > length - place:
            return False
        if COLUMNS[number] != NO_COLUMN:
            values[COLUMNS[number]].at = props + place
            values[COLUMNS[number]].size = size
        place += size
    return place == length


def properties(buffer, uint64_t base, bytes at, bytes size):
    """See native/message_columns.py."""
    cdef Pieces lists = Pieces(buffer, base, at, size)
    cdef uint64_t row, rows = lists.rows
    cdef uint64_t sizes[PROPERTY_COLUMNS]
    cdef Value values[PROPERTY_COLUMNS]
    cdef Column columns[PROPERTY_COLUMNS]
    cdef int number
    cdef list buffers = []
    for number in range(PROPERTY_COLUMNS):
        sizes[number] = 0
    for row in range(rows):
        read_list(lists.start(row), lists.size(row), values)
        for number in range(PROPERTY_COLUMNS):
            sizes[number] += values[number].size
    for number in range(PROPERTY_COLUMNS):
        if number == TIMESTAMP:
            buffers.append(new_column(&columns[number], INT64, True, rows))
        else:
            buffers.append(new_column(&columns[number], BINARY, True, rows, sizes[number]))
    for row in range(rows):
        read_list(lists.start(row), lists.size(row), values)
        for number in range(PROPERTY_COLUMNS):
            if number == TIMESTAMP:
                maybe64(
                    &columns[number], row, values[number].at != NULL,
                    get_be(values[number].at, 8) if values[number].at != NULL else 0,
                )
            elif values[number].at == NULL:
                null_bytes(&columns[number], row)
            else:
                put_bytes(&columns[number], row, values[number].at, values[number].size)
    return rows, finished(columns, tuple(buffers), rows)


def gather(buffer, uint64_t base, bytes at, bytes size):
    """See native/message_columns.py."""
    cdef Pieces pieces = Pieces(buffer, base, at, size)
    cdef uint64_t row, total = 0
    cdef Column column
    for row in range(pieces.rows):
        total += pieces.size(row)
    buffers = new_column(&column, BINARY, False, pieces.rows, total)
    for row in range(pieces.rows):
        put_bytes(&column, row, pieces.start(row), pieces.size(row))
    return buffers
