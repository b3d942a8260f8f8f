# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of native/crc32c.py; the arithmetic is in _crc32c.h, which record_scan's twin shares."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint32_t

cdef extern from "_crc32c.h" nogil:
    void crc32c_init()
    uint32_t crc32c_of(uint32_t value, const void *buffer, size_t len)
    uint32_t crc32c_by_tables(uint32_t crc, const uint8_t *buffer, size_t len)

crc32c_init()

cdef enum:
    # Below this, letting other threads run costs more than the sum does (about 10 us).
    RELEASE_GIL_BYTES_MIN = 1 << 16


def crc32c(buffer, uint32_t value=0):
    """See native/crc32c.py."""
    cdef Py_buffer view
    cdef uint32_t crc
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        if view.len < RELEASE_GIL_BYTES_MIN:
            return crc32c_of(value, view.buf, <size_t>view.len)
        with nogil:
            crc = crc32c_of(value, view.buf, <size_t>view.len)
        return crc
    finally:
        PyBuffer_Release(&view)


def crc32c_without_instruction(buffer, uint32_t value=0):
    """The same by tables, as a machine without the instruction computes it: for the tests."""
    cdef Py_buffer view
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        return <uint32_t>~crc32c_by_tables(~value, <const uint8_t *>view.buf, <size_t>view.len)
    finally:
        PyBuffer_Release(&view)
