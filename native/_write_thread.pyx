# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of storage/wal/write_thread.py: the thread is in _write_thread.h, and never takes the interpreter lock."""

import os

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_CheckSignals
from cpython.memoryview cimport PyMemoryView_GET_BUFFER
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc


cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void *iov_base
        size_t iov_len


cdef extern from "_write_thread.h" nogil:
    int WRITES_MAX

    enum write_step:
        WRITE_STEP_NONE
        WRITE_STEP_WRITE
        WRITE_STEP_SYNC
        WRITE_STEP_BEFORE

    struct write_job:
        write_step failed
        int error
        double took_s

    struct write_thread:
        int ended
        write_job jobs[2]
        unsigned begun_count
        unsigned ended_count

    int write_thread_start(write_thread *self)
    void write_thread_begin(write_thread *self, int descriptor, int64_t offset, iovec *parts, size_t part_count)
    int write_thread_end(write_thread *self)
    void write_thread_stop(write_thread *self)


@cython.no_gc  # the collector must not take `buffers` away while the thread writes from them; nothing in them refers back
cdef class WriteThread:
    """See storage/wal/write_thread.py."""

    cdef write_thread thread
    cdef bint started
    cdef iovec *parts[2]  # of each write that was begun
    cdef list buffers     # what they point into

    def __cinit__(self):
        cdef int error = write_thread_start(&self.thread)
        if error != 0:
            raise OSError(error, os.strerror(error))
        self.buffers = [None] * WRITES_MAX
        self.started = True

    def __dealloc__(self):
        self.stop()

    def fileno(self):
        return self.thread.ended

    def begin(self, int descriptor, int64_t offset, parts):
        assert self.started, "a write is begun, and its thread is closed"
        assert self.on_their_way() < WRITES_MAX, "a third write is begun before the first has ended"
        cdef unsigned at = self.thread.begun_count % WRITES_MAX
        cdef size_t count = self.gather(at, parts)
        write_thread_begin(&self.thread, descriptor, offset, self.parts[at], count)

    def end(self):
        assert self.on_their_way(), "no write was begun"
        cdef unsigned at = self.thread.ended_count % WRITES_MAX
        cdef int error
        while True:
            with nogil:
                error = write_thread_end(&self.thread)
            if error == 0:
                break
            PyErr_CheckSignals()
        self.release(at)
        cdef write_job *job = &self.thread.jobs[at]
        return failed_step(job.failed), job.error, job.took_s

    def close(self):
        self.stop()

    cdef unsigned on_their_way(self) noexcept:
        return self.thread.begun_count - self.thread.ended_count

    cdef size_t gather(self, unsigned place, parts) except? 0:
        """Point to the bytes of all parts that have some, and keep them where they are until the end of the write."""
        cdef list buffers = list(parts)
        cdef size_t count = 0
        cdef Py_ssize_t at
        cdef iovec *pointers = <iovec *>malloc((len(buffers) + 1) * sizeof(iovec))
        self.parts[place] = pointers
        if pointers == NULL:
            raise MemoryError()
        try:
            for at in range(len(buffers)):
                if not PyBytes_CheckExact(buffers[at]):
                    buffers[at] = contiguous(buffers[at])  # which cannot be resized as long as there is a view of it
                point(&pointers[count], buffers[at])
                count += pointers[count].iov_len > 0
        except BaseException:
            self.release(place)
            raise
        self.buffers[place] = buffers
        return count

    cdef void release(self, unsigned place) noexcept:
        free(self.parts[place])
        self.parts[place] = NULL
        self.buffers[place] = None

    cdef void stop(self) noexcept:
        if not self.started:
            return
        self.started = False
        with nogil:
            while self.thread.begun_count != self.thread.ended_count:
                write_thread_end(&self.thread)
            write_thread_stop(&self.thread)
        for place in range(WRITES_MAX):
            self.release(place)


cdef failed_step(write_step failed):
    if failed == WRITE_STEP_NONE:
        return None
    return {WRITE_STEP_WRITE: "write", WRITE_STEP_SYNC: "fsync", WRITE_STEP_BEFORE: "before"}[failed]


cdef contiguous(part):
    view = memoryview(part)
    if not view.c_contiguous:
        raise BufferError("a part that is to be written does not lie in one piece")
    return view


cdef void point(iovec *part, buffer) noexcept:
    if PyBytes_CheckExact(buffer):
        part.iov_base = PyBytes_AS_STRING(buffer)
        part.iov_len = <size_t>PyBytes_GET_SIZE(buffer)
    else:
        part.iov_base = PyMemoryView_GET_BUFFER(buffer).buf
        part.iov_len = <size_t>PyMemoryView_GET_BUFFER(buffer).len
