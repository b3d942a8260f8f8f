# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of native/sequence_set.py: one C array of (start, end), with slack at its front and its end."""

from libc.stdint cimport uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove

cdef enum:
    CAPACITY_MIN = 4


cdef struct Range:
    uint64_t start
    uint64_t end


cdef int check(uint64_t start, uint64_t end) except -1:
    if start > end:
        raise ValueError(f"range from {start} to {end} ends before it starts")
    return 0


cdef class SequenceSet:
    """See native/sequence_set.py."""

    cdef Range *memory         # what was allocated
    cdef Py_ssize_t capacity   # ranges that fit into it
    cdef Py_ssize_t front      # memory[front : back] are the set's ranges
    cdef Py_ssize_t back
    cdef uint64_t members

    def __dealloc__(self):
        free(self.memory)

    cdef Py_ssize_t ending_after(self, uint64_t number, bint touching) noexcept:
        """The first range that ends beyond a number; with `touching`, at it or beyond."""
        cdef Py_ssize_t low = self.front, high = self.back, middle
        # Most questions are about the first range or the last one.
        if low < high and self.memory[low].end > number:
            return low
        if low + 1 < high and self.memory[high - 2].end < number:
            low = high - 1
        while low < high:
            middle = low + (high - low) // 2
            if self.memory[middle].end > number or (touching and self.memory[middle].end == number):
                high = middle
            else:
                low = middle + 1
        return low

    cdef Py_ssize_t starting_after(self, uint64_t number, bint touching, Py_ssize_t low) noexcept:
        """From `low` on, the first range that starts beyond a number; with `touching`, at it or beyond."""
        cdef Py_ssize_t high = self.back, middle
        while low < high:
            middle = low + (high - low) // 2
            if self.memory[middle].start > number or (touching and self.memory[middle].start == number):
                high = middle
            else:
                low = middle + 1
        return low

    cdef uint64_t overlap(self, Py_ssize_t first, Py_ssize_t last, uint64_t start, uint64_t end) noexcept:
        """How many members ranges first to last - 1 have between start and end."""
        cdef uint64_t total = 0, low, high
        cdef Py_ssize_t i
        for i in range(first, last):
            low = max(start, self.memory[i].start)
            high = min(end, self.memory[i].end)
            if low < high:
                total += high - low
        return total

    cdef int resize(self, Py_ssize_t capacity) except -1:
        cdef Range *memory = <Range *>realloc(self.memory, <size_t>capacity * sizeof(Range))
        if memory == NULL:
            raise MemoryError(f"no memory for {capacity} ranges")
        self.memory = memory
        self.capacity = capacity
        return 0

    cdef int make_room(self) except -1:
        """Room for one more range at the back: by moving to the front if half is slack there, else by growing."""
        cdef Py_ssize_t ranges = self.back - self.front
        if self.back < self.capacity:
            return 0
        if self.front >= CAPACITY_MIN and self.front * 2 >= self.capacity:
            memmove(self.memory, self.memory + self.front, <size_t>ranges * sizeof(Range))
            self.front = 0
            self.back = ranges
            return 0
        return self.resize(max(<Py_ssize_t>CAPACITY_MIN, self.capacity * 2))

    cdef int replace(self, Py_ssize_t first, Py_ssize_t last, Range *kept, Py_ssize_t kept_count) except -1:
        """Put up to two ranges where first to last - 1 were."""
        cdef Py_ssize_t offset = first - self.front
        cdef Py_ssize_t replaced = last - first
        if offset == 0 and kept_count <= replaced + self.front:
            self.front += replaced - kept_count  # the slack before the front takes it, and nothing moves
            first = self.front
        elif kept_count != replaced:
            if kept_count > replaced:  # never by more than one
                self.make_room()
                first = self.front + offset
                last = first + replaced
            memmove(
                self.memory + first + kept_count, self.memory + last, <size_t>(self.back - last) * sizeof(Range)
            )
            self.back += kept_count - replaced
        memcpy(self.memory + first, kept, <size_t>kept_count * sizeof(Range))
        self.give_back()
        return 0

    cdef int give_back(self) except -1:
        """Start over at the front of an empty set's memory, and return most of it if it was large."""
        cdef Py_ssize_t ranges = self.back - self.front
        if ranges == 0:
            self.front = self.back = 0
        if self.capacity > 1024 and ranges * 8 < self.capacity:
            if self.front:
                memmove(self.memory, self.memory + self.front, <size_t>ranges * sizeof(Range))
                self.front = 0
                self.back = ranges
            self.resize(self.capacity // 4)
        return 0

    def add(self, uint64_t start, uint64_t end):
        """See native/sequence_set.py."""
        cdef Range whole
        cdef Py_ssize_t first, last
        cdef uint64_t new
        check(start, end)
        if start == end:
            return 0
        first = self.ending_after(start, True)
        last = self.starting_after(end, False, first)
        new = end - start - self.overlap(first, last, start, end)
        whole.start = start
        whole.end = end
        if first < last:
            whole.start = min(start, self.memory[first].start)
            whole.end = max(end, self.memory[last - 1].end)
        self.replace(first, last, &whole, 1)
        self.members += new
        return new

    def remove(self, uint64_t start, uint64_t end):
        """See native/sequence_set.py."""
        cdef Range kept[2]
        cdef Py_ssize_t first, last, kept_count = 0
        cdef uint64_t gone
        check(start, end)
        if start == end:
            return 0
        first = self.ending_after(start, False)
        last = self.starting_after(end, True, first)
        if first >= last:
            return 0
        gone = self.overlap(first, last, start, end)
        if self.memory[first].start < start:
            kept[0].start = self.memory[first].start
            kept[0].end = start
            kept_count = 1
        if end < self.memory[last - 1].end:
            kept[kept_count].start = end
            kept[kept_count].end = self.memory[last - 1].end
            kept_count += 1
        self.replace(first, last, kept, kept_count)
        self.members -= gone
        return gone

    def first(self):
        """See native/sequence_set.py."""
        if self.front == self.back:
            raise ValueError("an empty set has no first member")
        return self.memory[self.front].start

    def last(self):
        """See native/sequence_set.py."""
        if self.front == self.back:
            raise ValueError("an empty set has no last member")
        return self.memory[self.back - 1].end - 1

    def ranges(self):
        """See native/sequence_set.py."""
        cdef Py_ssize_t i
        return [(self.memory[i].start, self.memory[i].end) for i in range(self.front, self.back)]

    def intersect(self, uint64_t start, uint64_t end):
        """See native/sequence_set.py."""
        cdef Py_ssize_t first, last, i
        check(start, end)
        if start == end:
            return []
        first = self.ending_after(start, False)
        last = self.starting_after(end, True, first)
        return [
            (max(start, self.memory[i].start), min(end, self.memory[i].end)) for i in range(first, last)
        ]

    def first_range(self, uint64_t start, uint64_t end):
        """See native/sequence_set.py."""
        cdef Py_ssize_t at
        check(start, end)
        at = self.ending_after(start, False)
        if start == end or at == self.back or self.memory[at].start >= end:
            return None
        return max(start, self.memory[at].start), min(end, self.memory[at].end)

    def pop_first(self, n):
        """See native/sequence_set.py."""
        cdef uint64_t left, size
        cdef Range *at
        cdef list taken = []
        if n < 0:
            raise ValueError(f"cannot take {n} members")
        left = min(n, self.members)
        self.members -= left
        while left:
            at = self.memory + self.front
            size = min(left, at.end - at.start)
            taken.append((at.start, at.start + size))
            at.start += size
            left -= size
            if at.start == at.end:
                self.front += 1
        self.give_back()
        return taken

    def clear(self):
        """See native/sequence_set.py."""
        self.front = self.back = 0
        self.members = 0
        self.give_back()

    def copy(self):
        """See native/sequence_set.py."""
        cdef SequenceSet twin = SequenceSet.__new__(SequenceSet)
        cdef Py_ssize_t ranges = self.back - self.front
        if ranges:
            twin.resize(ranges)
            memcpy(twin.memory, self.memory + self.front, <size_t>ranges * sizeof(Range))
        twin.back = ranges
        twin.members = self.members
        return twin

    @property
    def count(self):
        """See native/sequence_set.py."""
        return self.members

    @property
    def range_count(self):
        """See native/sequence_set.py."""
        return self.back - self.front

    def __contains__(self, number):
        cdef uint64_t wanted
        cdef Py_ssize_t at
        if not isinstance(number, int):
            return False
        try:
            wanted = number
        except OverflowError:
            return False
        at = self.ending_after(wanted, False)
        return at < self.back and self.memory[at].start <= wanted

    def __len__(self):
        if self.members > <uint64_t>0x7FFFFFFFFFFFFFFF:
            raise OverflowError("cannot fit 'int' into an index-sized integer")
        return <Py_ssize_t>self.members

    def __bool__(self):
        return self.members != 0

    def __eq__(self, other):
        if not isinstance(other, SequenceSet):
            return NotImplemented
        return self.ranges() == other.ranges()

    def __repr__(self):
        return f"SequenceSet({self.ranges()})"
