# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of native/crc32.py: by the instruction of _crc32.h, or zlib's where the processor has none."""

import zlib

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint32_t

cdef extern from "_crc32.h" nogil:
    int crc32_init()
    uint32_t crc32_of(uint32_t value, const void *buffer, size_t len)

cdef enum:
    # Below this, letting other threads run costs more than the sum does (about 40 us).
    RELEASE_GIL_BYTES_MIN = 1 << 20


def crc32_by_instruction(buffer, uint32_t value=0):
    """See native/crc32.py."""
    cdef Py_buffer view
    cdef uint32_t crc
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        if view.len < RELEASE_GIL_BYTES_MIN:
            return crc32_of(value, view.buf, <size_t>view.len)
        with nogil:
            crc = crc32_of(value, view.buf, <size_t>view.len)
        return crc
    finally:
        PyBuffer_Release(&view)


crc32 = crc32_by_instruction if crc32_init() else zlib.crc32
