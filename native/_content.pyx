# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of native/content.py."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

from native._message_layout cimport Message, damaged, message_at

cdef uint64_t LEN_MAX = 0xFFFFFFFF


cdef inline void put_u32le(uint8_t *p, uint64_t value) noexcept nogil:
    p[0] = value & 0xFF
    p[1] = (value >> 8) & 0xFF
    p[2] = (value >> 16) & 0xFF
    p[3] = (value >> 24) & 0xFF


cdef object walk(content, Py_ssize_t position, Py_ssize_t count, uint64_t *body_bytes):
    """The position after `count` messages; adds up their bodies."""
    cdef Py_buffer view
    cdef Message m
    PyObject_GetBuffer(content, &view, PyBUF_SIMPLE)
    try:
        body_bytes[0] = 0
        while count > 0:
            if not message_at(<const uint8_t *>view.buf, <uint64_t>view.len, <uint64_t>position, &m):
                raise damaged(<const uint8_t *>view.buf, <uint64_t>view.len, position)
            body_bytes[0] += m.body_len
            position = <Py_ssize_t>m.end
            count -= 1
        return position
    finally:
        PyBuffer_Release(&view)


def encode(props, body):
    """See native/content.py."""
    cdef Py_buffer props_view, body_view
    cdef bytes content
    cdef uint8_t *out
    PyObject_GetBuffer(props, &props_view, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(body, &body_view, PyBUF_SIMPLE)
        try:
            if <uint64_t>props_view.len > LEN_MAX:
                raise ValueError(f"properties of {props_view.len} bytes: a message holds at most {LEN_MAX}")
            if <uint64_t>body_view.len > LEN_MAX:
                raise ValueError(f"body of {body_view.len} bytes: a message holds at most {LEN_MAX}")
            content = PyBytes_FromStringAndSize(NULL, 8 + props_view.len + body_view.len)
            out = <uint8_t *>PyBytes_AS_STRING(content)
            put_u32le(out, <uint64_t>props_view.len)
            put_u32le(out + 4, <uint64_t>body_view.len)
            memcpy(out + 8, props_view.buf, <size_t>props_view.len)
            memcpy(out + 8 + props_view.len, body_view.buf, <size_t>body_view.len)
            return content
        finally:
            PyBuffer_Release(&body_view)
    finally:
        PyBuffer_Release(&props_view)


def skip(content, Py_ssize_t position, Py_ssize_t count):
    """See native/content.py."""
    cdef uint64_t bodies
    return walk(content, position, count, &bodies)


def body_bytes(content, Py_ssize_t position, Py_ssize_t count):
    """See native/content.py."""
    cdef uint64_t bodies
    walk(content, position, count, &bodies)
    return bodies


def take(content, Py_ssize_t position, Py_ssize_t count_max, Py_ssize_t bytes_max):
    """See native/content.py."""
    cdef Py_buffer view
    cdef Message m
    cdef Py_ssize_t taken = 0, bodies = 0
    PyObject_GetBuffer(content, &view, PyBUF_SIMPLE)
    try:
        while taken < count_max and position < view.len:
            if not message_at(<const uint8_t *>view.buf, <uint64_t>view.len, <uint64_t>position, &m):
                raise damaged(<const uint8_t *>view.buf, <uint64_t>view.len, position)
            if taken and bodies + <Py_ssize_t>m.body_len > bytes_max:
                break
            taken += 1
            bodies += <Py_ssize_t>m.body_len
            position = <Py_ssize_t>m.end
        return taken, position, bodies
    finally:
        PyBuffer_Release(&view)


def messages(content, Py_ssize_t position, Py_ssize_t count):
    """See native/content.py."""
    cdef Py_buffer view
    cdef Message m
    cdef const char *at
    cdef list found = []
    PyObject_GetBuffer(content, &view, PyBUF_SIMPLE)
    try:
        at = <const char *>view.buf
        while count > 0:
            if not message_at(<const uint8_t *>at, <uint64_t>view.len, <uint64_t>position, &m):
                raise damaged(<const uint8_t *>at, <uint64_t>view.len, position)
            found.append((
                PyBytes_FromStringAndSize(at + m.props, <Py_ssize_t>m.props_len),
                PyBytes_FromStringAndSize(at + m.body, <Py_ssize_t>m.body_len),
            ))
            position = <Py_ssize_t>m.end
            count -= 1
        return found
    finally:
        PyBuffer_Release(&view)


def count(content):
    """See native/content.py."""
    cdef Py_buffer view
    cdef Message m
    cdef Py_ssize_t found = 0, position = 0
    PyObject_GetBuffer(content, &view, PyBUF_SIMPLE)
    try:
        while position < view.len:
            if not message_at(<const uint8_t *>view.buf, <uint64_t>view.len, <uint64_t>position, &m):
                raise damaged(<const uint8_t *>view.buf, <uint64_t>view.len, position)
            position = <Py_ssize_t>m.end
            found += 1
        return found
    finally:
        PyBuffer_Release(&view)
