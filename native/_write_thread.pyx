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
    enum write_step:
        WRITE_STEP_NONE
        WRITE_STEP_WRITE
        WRITE_STEP_SYNC

    struct write_thread:
        int ended
        write_step failed
        int error
        double took_s

    int write_thread_start(write_thread *self)
    void write_thread_begin(write_thread *self, int descriptor, int64_t offset, iovec *parts, size_t part_count)
    int write_thread_end(write_thread *self)
    void write_thread_stop(write_thread *self)


@cython.no_gc  # the collector must not take `buffers` away while the thread writes from them; nothing in them refers back
cdef class WriteThread:
    """See storage/wal/write_thread.py."""

    cdef write_thread thread
    cdef bint started
    cdef bint begun
    cdef iovec *parts    # of the write that was begun
    cdef object buffers  # what they point into

    def __cinit__(self):
        cdef int error = write_thread_start(&self.thread)
        if error != 0:
            raise OSError(error, os.strerror(error))
        self.started = True

    def __dealloc__(self):
        self.stop()

    def fileno(self):
        return self.thread.ended

    def begin(self, int descriptor, int64_t offset, parts):
        assert self.started and not self.begun, "a write is begun when the one before has ended, and before the thread is closed"
        cdef size_t count = self.gather(parts)
        self.begun = True
        write_thread_begin(&self.thread, descriptor, offset, self.parts, count)

    def end(self):
        assert self.begun, "no write was begun"
        cdef int error
        while True:
            with nogil:
                error = write_thread_end(&self.thread)
            if error == 0:
                break
            PyErr_CheckSignals()
        self.begun = False
        self.release()
        return self.failed_step(), self.thread.error, self.thread.took_s

    def close(self):
        self.stop()

    cdef failed_step(self):
        if self.thread.failed == WRITE_STEP_NONE:
            return None
        return "write" if self.thread.failed == WRITE_STEP_WRITE else "fsync"

    cdef size_t gather(self, parts) except? 0:
        """Point to the bytes of all parts that have some, and keep them where they are until the end of the write."""
        cdef list buffers = list(parts)
        cdef size_t count = 0
        cdef Py_ssize_t at
        self.parts = <iovec *>malloc((len(buffers) + 1) * sizeof(iovec))
        if self.parts == NULL:
            raise MemoryError()
        try:
            for at in range(len(buffers)):
                if not PyBytes_CheckExact(buffers[at]):
                    buffers[at] = contiguous(buffers[at])  # which cannot be resized as long as there is a view of it
                point(&self.parts[count], buffers[at])
                count += self.parts[count].iov_len > 0
        except BaseException:
            self.release()
            raise
        self.buffers = buffers
        return count

    cdef void release(self) noexcept:
        free(self.parts)
        self.parts = NULL
        self.buffers = None

    cdef void stop(self) noexcept:
        cdef bint begun = self.begun
        if not self.started:
            return
        self.started = self.begun = False
        with nogil:
            while begun and write_thread_end(&self.thread) != 0:
                pass
            write_thread_stop(&self.thread)
        self.release()


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
