# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of native/index_ranges.py: the column with the lowest head is followed until another one's is lower."""

from array import array

from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc, realloc

cdef enum:
    ROOM_MIN = 64


cdef struct Column:
    const uint64_t *at
    const uint64_t *end


cdef struct Ranges:
    uint64_t *firsts
    uint64_t *ends
    Py_ssize_t count
    Py_ssize_t room


cdef int grow(Ranges *ranges) except -1:
    cdef Py_ssize_t room = max(<Py_ssize_t>ROOM_MIN, ranges.room * 2)
    cdef uint64_t *firsts = <uint64_t *>realloc(ranges.firsts, room * sizeof(uint64_t))
    if firsts == NULL:
        raise MemoryError
    ranges.firsts = firsts
    cdef uint64_t *ends = <uint64_t *>realloc(ranges.ends, room * sizeof(uint64_t))
    if ends == NULL:
        raise MemoryError
    ranges.ends = ends
    ranges.room = room
    return 0


cdef inline int add(Ranges *ranges, uint64_t number) except -1:
    cdef Py_ssize_t last = ranges.count - 1
    if last >= 0 and number <= ranges.ends[last]:
        if number == ranges.ends[last]:
            ranges.ends[last] = number + 1
        return 0
    if ranges.count == ranges.room:
        grow(ranges)
    ranges.firsts[ranges.count] = number
    ranges.ends[ranges.count] = number + 1
    ranges.count += 1
    return 0


cdef int follow(Column *columns, Py_ssize_t count, Ranges *ranges) except -1:
    """One column as long as no other one's head is lower. 0: all columns are used up."""
    cdef Py_ssize_t at, lowest = -1
    cdef uint64_t until = <uint64_t>-1, number
    for at in range(count):
        if columns[at].at == columns[at].end:
            continue
        if lowest < 0 or columns[at].at[0] < columns[lowest].at[0]:
            if lowest >= 0:
                until = min(until, columns[lowest].at[0])
            lowest = at
        else:
            until = min(until, columns[at].at[0])
    if lowest < 0:
        return 0
    cdef Column *column = &columns[lowest]
    while column.at < column.end and column.at[0] <= until:
        number = column.at[0]
        add(ranges, number)
        column.at += 1
        if column.at < column.end and column.at[0] < number:
            raise ValueError(f"{column.at[0]} stands behind {number} in a column that is to ascend")
    return 1


cdef object taken(const uint64_t *numbers, Py_ssize_t count):
    result = array("Q")
    if count:
        result.frombytes(<const unsigned char[:count * 8]><const unsigned char *>numbers)
    return result


def union(columns):
    """See native/index_ranges.py."""
    cdef list held = [column for column in columns if len(column)]  # nobody may change them meanwhile
    cdef Py_ssize_t count = len(held), at
    cdef Ranges ranges
    cdef const uint64_t[::1] view
    ranges.firsts = ranges.ends = NULL
    ranges.count = ranges.room = 0
    cdef Column *heads = <Column *>malloc(max(count, <Py_ssize_t>1) * sizeof(Column))
    if heads == NULL:
        raise MemoryError
    try:
        for at in range(count):
            view = held[at]
            heads[at].at = &view[0]
            heads[at].end = &view[0] + view.shape[0]
        while follow(heads, count, &ranges):
            pass
        return taken(ranges.firsts, ranges.count), taken(ranges.ends, ranges.count)
    finally:
        free(heads)
        free(ranges.firsts)
        free(ranges.ends)
