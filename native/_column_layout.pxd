"""Columns that are filled by the twins that make tables: native/columns.py says how they lie.

A table is made in two walks over the same bytes: one that counts rows and bytes, and one that fills columns of exactly that
size. A column is filled row by row, and every row of it is put or left null.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

cdef enum:
    INT64 = 8
    INT32 = 4
    INT8 = 1
    BINARY = 0
    DATA_BYTES_MAX = 0x7FFFFFFF

cdef struct Column:
    uint8_t *bits       # NULL: no row is null
    uint8_t *values     # of BINARY: the offsets
    uint8_t *data
    uint64_t filled     # bytes of data
    uint64_t present    # rows with a value


cdef inline tuple new_column(Column *column, int kind, bint nullable, uint64_t rows, uint64_t data_bytes=0):
    """The column's buffers, which `column` points into: they must outlive it."""
    cdef bytes bits = None, values, data
    cdef uint64_t size = (rows + 1) * 4 if kind == BINARY else rows * <uint64_t>kind
    if data_bytes > DATA_BYTES_MAX:
        raise ValueError(f"a column would have {data_bytes} bytes, {DATA_BYTES_MAX} is the most")
    values = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
    column.values = <uint8_t *>PyBytes_AS_STRING(values)
    column.bits = column.data = NULL
    column.filled = column.present = 0
    if nullable:
        bits = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>((rows + 7) // 8))
        column.bits = <uint8_t *>PyBytes_AS_STRING(bits)
        memset(column.bits, 0, (rows + 7) // 8)
    if kind != BINARY:
        return bits, values
    (<int32_t *>column.values)[0] = 0
    data = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>data_bytes)
    column.data = <uint8_t *>PyBytes_AS_STRING(data)
    return bits, values, data


cdef inline tuple made(Column *column, tuple buffers, uint64_t rows):
    """The buffers of a column that is full: without validity where nothing is null."""
    if column.bits != NULL and column.present == rows:
        return (None, *buffers[1:])
    return buffers


cdef inline tuple finished(Column *columns, tuple buffers, uint64_t rows):
    """All columns of a table that is full."""
    cdef list done = []
    cdef Py_ssize_t number
    for number in range(len(buffers)):
        done.append(made(&columns[number], <tuple>buffers[number], rows))
    return tuple(done)


cdef inline void present(Column *column, uint64_t row) noexcept nogil:
    if column.bits != NULL:
        column.bits[row >> 3] |= <uint8_t>(1 << (row & 7))
        column.present += 1


cdef inline void put64(Column *column, uint64_t row, uint64_t value) noexcept nogil:
    memcpy(column.values + row * 8, &value, 8)
    present(column, row)


cdef inline void put32(Column *column, uint64_t row, uint64_t value) noexcept nogil:
    cdef int32_t low = <int32_t>value
    memcpy(column.values + row * 4, &low, 4)
    present(column, row)


cdef inline void put8(Column *column, uint64_t row, uint64_t value) noexcept nogil:
    column.values[row] = <uint8_t>value
    present(column, row)


cdef inline void null64(Column *column, uint64_t row) noexcept nogil:
    memset(column.values + row * 8, 0, 8)


cdef inline void maybe64(Column *column, uint64_t row, bint known, uint64_t value) noexcept nogil:
    if known:
        put64(column, row, value)
    else:
        null64(column, row)


cdef inline void add_bytes(Column *column, const uint8_t *value, uint64_t size) noexcept nogil:
    """A part of a row's value; `end_bytes` ends it."""
    memcpy(column.data + column.filled, value, size)
    column.filled += size


cdef inline void end_bytes(Column *column, uint64_t row) noexcept nogil:
    (<int32_t *>column.values)[row + 1] = <int32_t>column.filled
    present(column, row)


cdef inline void put_bytes(Column *column, uint64_t row, const uint8_t *value, uint64_t size) noexcept nogil:
    add_bytes(column, value, size)
    end_bytes(column, row)


cdef inline void null_bytes(Column *column, uint64_t row) noexcept nogil:
    (<int32_t *>column.values)[row + 1] = <int32_t>column.filled


cdef inline void maybe8(Column *column, uint64_t row, bint known, uint64_t value) noexcept nogil:
    if known:
        put8(column, row, value)
    else:
        column.values[row] = 0
