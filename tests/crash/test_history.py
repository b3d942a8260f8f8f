"""The judge must find what it is there to find."""

from __future__ import annotations

import pytest

from tests.crash.history import FOREVER, Operation, judge

KEY = b"key"


def put(value: bytes, version: int, began: float, ended: float = FOREVER, *, refused: bool = False) -> Operation:
    return Operation(KEY, began, ended, written=value, version=version, refused=refused)


def read(value: bytes | None, version: int, began: float, ended: float) -> Operation:
    return Operation(KEY, began, ended, version=version, found=value)


RIGHT = {
    "one after the other": [put(b"a", 1, 0, 1), read(b"a", 1, 2, 3), put(b"b", 2, 4, 5), read(b"b", 2, 6, 7)],
    "at the same time, in either order": [
        put(b"a", 2, 0, 9),
        put(b"b", 1, 0, 9),
        read(b"b", 1, 1, 2),
        read(b"a", 2, 3, 4),
    ],
    "a read of nothing before the first put": [read(None, 0, 0, 1), put(b"a", 1, 2, 3)],
    "a put of unknown fate that was done": [put(b"a", 0, 0), read(b"a", 1, 5, 6), put(b"b", 2, 7, 8)],
    "a put of unknown fate that was not done": [put(b"a", 0, 0), put(b"b", 1, 1, 2), read(b"b", 1, 5, 6)],
    "a put that was refused and not seen": [put(b"a", 0, 0, refused=True), read(None, 0, 1, 2)],
}
WRONG = {
    "a stale read": ([put(b"a", 1, 0, 1), put(b"b", 2, 2, 3), read(b"a", 1, 4, 5)], "read at version 1 when 2"),
    "a lost put": ([put(b"a", 1, 0, 1), read(None, 0, 2, 3)], "read at version 0 when 1"),
    "two reads that go back": (
        [put(b"a", 1, 0, 9), put(b"b", 2, 0, 9), read(b"b", 2, 1, 2), read(b"a", 1, 3, 4)],
        "when 2",
    ),
    "a version twice": ([put(b"a", 1, 0, 1), put(b"b", 1, 2, 3)], "put as version 1 when 1"),
    "a version with two values": ([put(b"a", 1, 0, 9), put(b"b", 0, 0), read(b"b", 1, 1, 2)], "is b'a' and b'b'"),
    "a value from nowhere": ([read(b"x", 1, 0, 1)], "nobody put it"),
    "a refused put that is seen": ([put(b"a", 0, 0, refused=True), read(b"a", 1, 1, 2)], "refused"),
    "a read before the put began": ([read(b"a", 1, 0, 1), put(b"a", 1, 2, 3)], "before it was put"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_some_order_explains_is_right(name: str) -> None:
    assert judge(RIGHT[name]) == []


@pytest.mark.parametrize("name", WRONG)
def test_what_no_order_explains_is_found(name: str) -> None:
    operations, expected = WRONG[name]
    wrong = judge(operations)
    assert wrong
    assert any(expected in one for one in wrong), wrong


def test_keys_are_judged_apart() -> None:
    other = Operation(b"other", 4, 5, version=1, found=b"o")
    assert (
        judge([put(b"a", 1, 0, 1), put(b"b", 2, 2, 3), other, Operation(b"other", 0, 1, written=b"o", version=1)]) == []
    )
