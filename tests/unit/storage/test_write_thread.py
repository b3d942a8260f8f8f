"""Both forms of the thread that writes and syncs: what it writes, how it tells of the end, and what it says of a failure."""

from __future__ import annotations

import errno
import gc
import mmap
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from native import compiled_twin
from storage.disk import Buffer
from storage.os_disk import PARTS_PER_CALL_MAX
from storage.wal.write_thread import NOT_WRITTEN, WriteThreadPlain

SOON_S = 10
TWIN = compiled_twin("write_thread")
FORMS = {"plain": WriteThreadPlain} | ({"compiled": TWIN.WriteThread} if TWIN is not None else {})


@pytest.fixture(params=sorted(FORMS))
def thread(request: pytest.FixtureRequest) -> Iterator[WriteThreadPlain]:
    made: WriteThreadPlain = FORMS[request.param]()
    yield made
    made.close()


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    opened = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    yield opened
    os.close(opened)


def written(thread: WriteThreadPlain, descriptor: int, offset: int, parts: Sequence[Buffer]) -> None:
    thread.begin(descriptor, offset, parts)
    failed, number, took_s = thread.end()
    assert (failed, number) == (None, 0) and 0 < took_s < SOON_S


def content(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def test_parts_of_every_kind_are_written_one_behind_the_other(thread: WriteThreadPlain, descriptor: int) -> None:
    written(thread, descriptor, 3, [b"one", bytearray(b"two"), b"", memoryview(b"_three_")[1:-1]])
    assert content(descriptor) == b"\0\0\0onetwothree"


def test_nothing_to_write_is_synced_all_the_same(thread: WriteThreadPlain, descriptor: int) -> None:
    written(thread, descriptor, 0, [])
    written(thread, descriptor, 0, [b"", b""])
    assert content(descriptor) == b""


def test_more_parts_than_one_call_takes(thread: WriteThreadPlain, descriptor: int) -> None:
    parts = [bytes([at % 251]) * (at % 3) for at in range(2 * PARTS_PER_CALL_MAX + 3)]
    written(thread, descriptor, 0, parts)
    assert content(descriptor) == b"".join(parts)


buffers = st.one_of(
    st.binary(max_size=40), st.binary(max_size=40).map(bytearray), st.binary(max_size=40).map(memoryview)
)
writes = st.lists(st.tuples(st.integers(0, 200), st.lists(buffers, max_size=30)), max_size=8)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(writes)
def test_a_file_has_what_any_writes_in_their_order_make_of_it(
    thread: WriteThreadPlain, descriptor: int, several: list[tuple[int, list[Buffer]]]
) -> None:
    os.ftruncate(descriptor, 0)
    expected = bytearray()
    for offset, parts in several:
        written(thread, descriptor, offset, parts)
        data = b"".join(parts)
        if data:
            expected.extend(bytes(max(0, offset - len(expected))))
            expected[offset : offset + len(data)] = data
    assert content(descriptor) == expected


def test_the_descriptor_is_readable_from_the_end_of_a_write_on_until_it_was_asked_for(
    thread: WriteThreadPlain, descriptor: int
) -> None:
    assert select.select([thread.fileno()], [], [], 0)[0] == []
    for _ in range(3):
        thread.begin(descriptor, 0, [b"x"])
        assert select.select([thread.fileno()], [], [], SOON_S)[0] == [thread.fileno()]
        thread.end()
        assert select.select([thread.fileno()], [], [], 0)[0] == []


def limited_to(size: int) -> Callable[[], None]:
    """No file of this process can be longer; returns what ends that."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

    def ended() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)

    return ended


def test_a_short_write_goes_on_until_the_system_says_what_is_wrong(thread: WriteThreadPlain, descriptor: int) -> None:
    ended = limited_to(10)
    try:
        thread.begin(descriptor, 0, [b"seven77", b"seven77", b"seven77"])
        outcome = thread.end()
    finally:
        ended()
    assert outcome[:2] == ("write", errno.EFBIG)
    assert content(descriptor) == b"seven77sev"
    written(thread, descriptor, 0, [b"and the thread goes on"])


def test_a_file_that_cannot_be_written_is_told_with_its_errno(thread: WriteThreadPlain, tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    read_only = os.open(tmp_path / "f", os.O_RDONLY)
    thread.begin(read_only, 0, [b"x"])
    assert thread.end()[:2] == ("write", errno.EBADF)
    os.close(read_only)


def test_a_full_device_is_told_with_its_errno(thread: WriteThreadPlain) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    thread.begin(full, 0, [b"x"])
    assert thread.end()[:2] == ("write", errno.ENOSPC)
    os.close(full)


def test_what_cannot_be_synced_is_told_with_its_errno(thread: WriteThreadPlain) -> None:
    """A character device takes bytes, and has nothing to sync."""
    null = os.open("/dev/null", os.O_WRONLY)
    thread.begin(null, 0, [b"x"])
    assert thread.end()[:2] == ("fsync", errno.EINVAL)
    os.close(null)


@pytest.mark.parametrize("parts", [["text"], [b"x", 7], [memoryview(b"abcdef")[::2]]])
def test_what_is_no_buffer_in_one_piece_is_refused_before_anything_is_written(
    thread: WriteThreadPlain, descriptor: int, parts: list[Buffer]
) -> None:
    with pytest.raises((TypeError, BufferError)):
        thread.begin(descriptor, 0, parts)
    written(thread, descriptor, 0, [b"y"])
    assert content(descriptor) == b"y"


def test_two_writes_at_a_time_and_no_third(thread: WriteThreadPlain, descriptor: int) -> None:
    with pytest.raises(AssertionError, match="no write was begun"):
        thread.end()
    thread.begin(descriptor, 0, [b"x"])
    thread.begin(descriptor, 1, [b"y"])
    with pytest.raises(AssertionError, match="a third write is begun"):
        thread.begin(descriptor, 2, [b"z"])
    assert [thread.end()[0], thread.end()[0]] == [None, None]
    with pytest.raises(AssertionError, match="no write was begun"):
        thread.end()
    assert content(descriptor) == b"xy"


def test_each_of_two_writes_has_an_end_of_its_own(thread: WriteThreadPlain, descriptor: int) -> None:
    for at in range(20):
        thread.begin(descriptor, 2 * at, [b"%02d" % at])
        if at:
            assert select.select([thread.fileno()], [], [], SOON_S)[0] == [thread.fileno()]
            assert thread.end()[0] is None
    assert thread.end()[0] is None
    assert select.select([thread.fileno()], [], [], 0)[0] == []
    assert content(descriptor) == b"".join(b"%02d" % at for at in range(20))


def test_a_write_behind_one_that_fails_is_left_out_and_the_one_begun_after_that_was_told_is_not(
    thread: WriteThreadPlain, descriptor: int, tmp_path: Path
) -> None:
    read_only = os.open(tmp_path / "f", os.O_RDONLY)
    thread.begin(read_only, 0, [b"fails"])
    thread.begin(descriptor, 0, [b"follows"])
    assert [thread.end()[:2], thread.end()] == [("write", errno.EBADF), NOT_WRITTEN]
    assert content(descriptor) == b""
    thread.begin(read_only, 0, [b"fails"])
    assert thread.end()[:2] == ("write", errno.EBADF)
    written(thread, descriptor, 0, [b"anew"])
    assert content(descriptor) == b"anew"
    os.close(read_only)


def test_a_write_behind_one_that_was_left_out_is_left_out_too(
    thread: WriteThreadPlain, descriptor: int, tmp_path: Path
) -> None:
    read_only = os.open(tmp_path / "f", os.O_RDONLY)
    thread.begin(read_only, 0, [b"fails"])
    thread.begin(descriptor, 0, [b"second"])
    thread.end()
    thread.begin(descriptor, 0, [b"third"])
    assert [thread.end(), thread.end()] == [NOT_WRITTEN, NOT_WRITTEN]
    assert content(descriptor) == b""
    os.close(read_only)


def test_a_closed_thread_takes_no_write_and_may_be_closed_again(thread: WriteThreadPlain, descriptor: int) -> None:
    thread.close()
    thread.close()
    with pytest.raises(AssertionError, match="a write is begun"):
        thread.begin(descriptor, 0, [b"x"])


def test_closing_waits_for_the_write_that_was_begun(thread: WriteThreadPlain, descriptor: int) -> None:
    parts = [bytes(1 << 20) for _ in range(8)]
    thread.begin(descriptor, 0, parts)
    thread.begin(descriptor, 8 << 20, parts)
    thread.close()
    assert os.fstat(descriptor).st_size == 16 << 20


def test_buffers_are_kept_until_the_end_and_no_longer(thread: WriteThreadPlain, descriptor: int) -> None:
    part, growing = os.urandom(100), bytearray(b"x")
    before = sys.getrefcount(part)
    for _ in range(10):
        thread.begin(descriptor, 0, [part, growing])
        thread.end()
    thread.begin(descriptor, 0, [part, growing])
    thread.begin(descriptor, 0, [memoryview(b"last")])  # the plain form's thread lets go when it takes the next
    thread.end()
    thread.end()
    assert sys.getrefcount(part) == before
    growing.extend(b"may be resized again")


def threads_of_this_process() -> int:
    return len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(TWIN is None, reason="nothing is compiled")
def test_the_compiled_thread_that_nobody_closed_ends_its_write_when_it_is_forgotten(descriptor: int) -> None:
    gc.collect()  # what other tests left goes now, and not while files are counted
    threads, descriptors = threads_of_this_process(), len(os.listdir("/proc/self/fd"))
    gc.freeze()  # behind thousands of tests each collection takes seconds
    try:
        for _ in range(20):
            thread = FORMS["compiled"]()
            thread.begin(descriptor, 0, [bytes(1 << 16) for _ in range(16)])
            del thread
            gc.collect()
            assert os.fstat(descriptor).st_size == 1 << 20
            os.ftruncate(descriptor, 0)
    finally:
        gc.unfreeze()
    assert threads_of_this_process() <= threads, "those of other tests may have ended meanwhile"
    assert len(os.listdir("/proc/self/fd")) <= descriptors


@pytest.mark.skipif(TWIN is None, reason="nothing is compiled")
def test_the_compiled_thread_writes_while_nobody_lets_go_of_the_interpreter(descriptor: int) -> None:
    """Neither the clock nor a mapped file does, and nobody is asked to for longer than this takes."""
    os.ftruncate(descriptor, mmap.PAGESIZE)
    thread, interval_s = FORMS["compiled"](), sys.getswitchinterval()
    sys.setswitchinterval(10 * SOON_S)
    try:
        with mmap.mmap(descriptor, mmap.PAGESIZE) as seen:
            given_up_at = time.monotonic() + SOON_S
            thread.begin(descriptor, 0, [b"x"])
            while seen[0] == 0 and time.monotonic() < given_up_at:
                pass
            assert seen[0] == ord("x")
    finally:
        sys.setswitchinterval(interval_s)
        thread.close()
