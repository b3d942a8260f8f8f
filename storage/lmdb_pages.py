"""Whether an LMDB file has all the pages that its trees refer to.

The file may be shorter than its number of pages says: a page at the end that one transaction took and gave back is counted, is
on the list of free pages, and was never written. LMDB does not read such a page. A file that has lost its end looks the same
from outside, and LMDB would read what is not there, through a memory map, which ends the process. The trees tell them apart.

Numbers are little endian, as on all machines that this runs on. A page:

    offset  size  field
         0     8  its number
        10     2  flags   1: branch   2: leaf
        12     2  lower   where the offsets of its nodes end, which begin at 16, each of 2 bytes

A node of a branch has the number of a page in its first 6 bytes; one of a leaf the size of its value in the first 4, then its
flags, the size of its key, the key, and the value, or with flag 1 the number of the first page that holds it. The first two
pages are heads, of which the one with the higher number of a transaction counts:

    offset  size  field
        80     8  the page of the root of the list of free pages; all ones: there is none
       128     8  the same, of the store
       144     8  number of the transaction
"""

from __future__ import annotations

from struct import Struct
from typing import BinaryIO

_BRANCH, _LEAF = 1, 2
_PAGE = Struct("<Q2xHH")
_PAGE_HEAD = 16
_NODE = Struct("<HHHH")
_BIG = 1
_NUMBER = Struct("<Q")
_ROOTS_AT = (80, 128)
_EMPTY = (1 << 64) - 1
_TRANSACTION_AT = 144
_HEAD_BYTES = 152


def first_missing_page(file: BinaryIO, page_bytes: int) -> int | None:
    """The number of a page that is referred to and is not in the file, or is another one; None if all are there."""
    size = file.seek(0, 2)
    heads = [_read(file, number * page_bytes, _HEAD_BYTES) for number in range(2)]
    if any(len(head) < _HEAD_BYTES for head in heads):
        return 0
    head = max(heads, key=lambda one: _NUMBER.unpack_from(one, _TRANSACTION_AT))
    waiting = [_NUMBER.unpack_from(head, at)[0] for at in _ROOTS_AT]
    while waiting:
        number = waiting.pop()
        if number == _EMPTY:
            continue
        page = _read(file, number * page_bytes, page_bytes)
        if len(page) < page_bytes or _PAGE.unpack_from(page)[0] != number:
            return int(number)
        branches, values = _referred_to(page)
        waiting += branches
        for first, value_bytes in values:
            if first * page_bytes + _PAGE_HEAD + value_bytes > size:
                return first
    return None


def _read(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


def _referred_to(page: bytes) -> tuple[list[int], list[tuple[int, int]]]:
    """Pages of the tree; the first pages of large values, with their sizes."""
    _, flags, lower = _PAGE.unpack_from(page)
    branches, values = [], []
    for at in range(_PAGE_HEAD, lower, 2):
        node = int.from_bytes(page[at : at + 2], "little")
        low, high, third, key_bytes = _NODE.unpack_from(page, node)
        if flags & _BRANCH:
            branches.append(low | high << 16 | third << 32)
        elif flags & _LEAF and third & _BIG:
            values.append((_NUMBER.unpack_from(page, node + _NODE.size + key_bytes)[0], low | high << 16))
    return branches, values
