# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of native/log_tally.py: nothing is joined, and a record like the one before is looked up nowhere."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from native._little_endian cimport get_le

cdef enum:
    HEADER_SIZE = 32
    MARK = 1
    FIRST_KIND_OF_WRITERS = 16
    CLASSIC_PUBLISH = 16
    CLASSIC_SETTLE = 17
    CLASSIC_QUEUE_DELETED = 19
    CLASSIC_DONE = 24
    CLASSIC_CHECKPOINT = 27
    RAFT_ENTRIES = 32
    NAME = 50

    FIRST_OF_AT = 56
    MARK_SIZE = 72
    MARK_WITHOUT_TIME_SIZE = 64
    FIXED_SIZE = 26
    PAIR_SIZE = 16
    ID_SIZE = 8


cdef class Reader:
    """Goes through buffers that were cut anywhere. What `read` returns is good until the next call."""

    cdef object buffers
    cdef Py_ssize_t next_buffer
    cdef Py_buffer view
    cdef bint has_view
    cdef const uint8_t *at
    cdef Py_ssize_t left        # of this buffer
    cdef uint64_t passed
    cdef uint8_t *joined
    cdef Py_ssize_t capacity

    def __cinit__(self, buffers):
        self.buffers = buffers

    def __dealloc__(self):
        self.release()
        free(self.joined)

    cdef void release(self) noexcept:
        if self.has_view:
            PyBuffer_Release(&self.view)
            self.has_view = False

    cdef bint more(self) except -1:
        """Whether anything is left; then of this buffer."""
        while self.left == 0:
            self.release()
            if self.next_buffer == len(self.buffers):
                return False
            PyObject_GetBuffer(self.buffers[self.next_buffer], &self.view, PyBUF_SIMPLE)
            self.has_view = True
            self.next_buffer += 1
            self.at = <const uint8_t *>self.view.buf
            self.left = self.view.len
        return True

    cdef int take(self, Py_ssize_t size) except -1:
        self.at += size
        self.left -= size
        self.passed += <uint64_t>size
        return 0

    cdef const uint8_t *read(self, Py_ssize_t size) except NULL:
        cdef const uint8_t *found
        cdef Py_ssize_t done = 0, step
        if self.left >= size or (self.left == 0 and self.more() and self.left >= size):
            found = self.at
            self.take(size)
            return found
        self.reserve(size)
        while done < size:
            if not self.more():
                raise EOFError()
            step = min(size - done, self.left)
            memcpy(self.joined + done, self.at, <size_t>step)
            self.take(step)
            done += step
        return self.joined

    cdef int reserve(self, Py_ssize_t size) except -1:
        cdef uint8_t *memory
        if size > self.capacity:
            memory = <uint8_t *>realloc(self.joined, <size_t>size)
            if memory == NULL:
                raise MemoryError(f"no memory for {size} bytes")
            self.joined = memory
            self.capacity = size
        return 0

    cdef int skip(self, uint64_t size) except -1:
        cdef uint64_t step
        while size:
            if not self.more():
                raise EOFError()
            step = min(size, <uint64_t>self.left)
            self.take(<Py_ssize_t>step)
            size -= step
        return 0


cdef class WriterCount:
    cdef uint64_t records
    cdef uint64_t size
    cdef uint64_t first_index
    cdef uint64_t last_index


cdef class LogTally:
    """See native/log_tally.py."""

    cdef readonly uint64_t first_us
    cdef readonly uint64_t last_us
    cdef readonly uint64_t commits
    cdef readonly set queues
    cdef readonly set names
    cdef dict counts
    cdef WriterCount last_count   # of the record before
    cdef uint64_t last_writer
    cdef bint has_queue
    cdef uint64_t last_queue

    def __cinit__(self):
        self.queues = set()
        self.names = set()
        self.counts = {}

    @property
    def rows(self):
        return len(self.queues) + len(self.names) + len(self.counts)

    def writers(self):
        cdef WriterCount one
        rows = []
        for writer, count in sorted(self.counts.items()):
            one = count
            rows.append((writer, one.records, one.size, one.first_index, one.last_index))
        return rows

    def take(self, buffers):
        cdef Reader reader = Reader(buffers)
        try:
            while reader.more():
                self.take_record(reader)
        except EOFError:
            raise ValueError(f"the {reader.passed} bytes end within a record") from None

    cdef int take_record(self, Reader reader) except -1:
        cdef const uint8_t *head = reader.read(HEADER_SIZE)
        cdef uint64_t size = get_le(head + 4, 4), writer = get_le(head + 16, 8), index = get_le(head + 24, 8)
        cdef uint64_t end = reader.passed + size
        cdef int kind = head[8]
        if kind >= FIRST_KIND_OF_WRITERS:
            self.count(writer, index, HEADER_SIZE + size)
        if kind == CLASSIC_PUBLISH:
            if size >= FIXED_SIZE:
                self.note_queues(reader, size)
        elif kind == RAFT_ENTRIES:
            self.note_queue(writer)
        elif (CLASSIC_SETTLE <= kind <= CLASSIC_QUEUE_DELETED) or (CLASSIC_DONE <= kind <= CLASSIC_CHECKPOINT):
            if size >= ID_SIZE:
                self.note_queue(get_le(reader.read(ID_SIZE), 8))
        elif kind == MARK:
            if size == MARK_SIZE or size == MARK_WITHOUT_TIME_SIZE:
                self.count_mark(reader.read(<Py_ssize_t>size), size)
        elif kind == NAME:
            self.names.add((index, self.copied(reader, size)))
        reader.skip(end - reader.passed)
        return 0

    cdef int count(self, uint64_t writer, uint64_t index, uint64_t size) except -1:
        cdef WriterCount row = self.last_count
        if row is None or writer != self.last_writer:
            row = self.counts.get(writer)
            if row is None:
                row = WriterCount.__new__(WriterCount)
                row.first_index = row.last_index = index
                self.counts[writer] = row
            self.last_count = row
            self.last_writer = writer
        row.records += 1
        row.size += size
        row.first_index = min(row.first_index, index)
        row.last_index = max(row.last_index, index)
        return 0

    cdef int note_queue(self, uint64_t queue) except -1:
        if not self.has_queue or queue != self.last_queue:
            self.queues.add(queue)
            self.has_queue = True
            self.last_queue = queue
        return 0

    cdef int note_queues(self, Reader reader, uint64_t size) except -1:
        """The fixed head of a publish, and a pair for each of its queues."""
        cdef uint64_t pairs = get_le(reader.read(FIXED_SIZE) + 2, 2), nth
        cdef const uint8_t *found
        if 0 < pairs <= (size - FIXED_SIZE) // PAIR_SIZE:
            found = reader.read(<Py_ssize_t>(pairs * PAIR_SIZE))
            for nth in range(pairs):
                self.note_queue(get_le(found + nth * PAIR_SIZE, 8))
        return 0

    cdef bytes copied(self, Reader reader, uint64_t size):
        if size == 0:
            return b""
        return PyBytes_FromStringAndSize(<const char *>reader.read(<Py_ssize_t>size), <Py_ssize_t>size)

    cdef int count_mark(self, const uint8_t *payload, uint64_t size) except -1:
        """Those of earlier builds tell no time."""
        cdef uint64_t time_us = get_le(payload + FIRST_OF_AT + 8, 8) if size == MARK_SIZE else 0
        self.commits += get_le(payload + FIRST_OF_AT, 8) == 1
        if time_us:
            self.last_us = time_us
            if self.first_us == 0:
                self.first_us = time_us
        return 0
