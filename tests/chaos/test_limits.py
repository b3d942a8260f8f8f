"""The rig itself: limits bite while they are there, and are gone afterwards."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.chaos import limits
from tests.chaos.limits import Limits
from tests.running_node import read_line

WITHIN_S = 20.0
MIB = 1 << 20
PROGRAM = """
import os, sys, time
held = []
for line in sys.stdin:
    what, amount = line.split()
    if what == "open":
        try:
            for _ in range(int(amount)):
                held.append(os.open("/dev/null", os.O_RDONLY))
            print("opened", flush=True)
        except OSError as error:
            print(error.strerror, flush=True)
    elif what == "take":
        held.append(bytearray(os.urandom(int(amount))))
        print("taken", flush=True)
    elif what == "spin":
        until = time.process_time() + float(amount)
        began = time.monotonic()
        while time.process_time() < until:
            pass
        print(time.monotonic() - began, flush=True)
"""
needs_cgroups = pytest.mark.skipif(limits.available() is not None, reason=f"no limits here: {limits.available()}")


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert told(process, "spin 0") is not None
    yield process
    process.kill()
    process.communicate()


def told(process: subprocess.Popen[str], what: str) -> str:
    assert process.stdin is not None
    process.stdin.write(what + "\n")
    process.stdin.flush()
    return read_line(process, WITHIN_S).strip()


def test_a_process_at_its_limit_of_descriptors_opens_nothing_until_it_is_lifted(victim: subprocess.Popen[str]) -> None:
    assert told(victim, "open 5") == "opened"
    before = limits.limit_descriptors(victim.pid)
    assert told(victim, "open 1") == "Too many open files"
    limits.restore_descriptors(victim.pid, before)
    assert told(victim, "open 5") == "opened"


@needs_cgroups
def test_a_process_with_a_tenth_of_a_core_takes_several_times_as_long(victim: subprocess.Popen[str]) -> None:
    limited = Limits(victim.pid)
    limited.limit_processor(0.1)
    try:
        assert not limited.have_bitten()
        assert float(told(victim, "spin 0.2")) >= 1.0  # 20 periods' worth of quota: 2 s, less what the first one gives
    finally:
        assert limited.have_bitten()
        limited.remove()
    assert not list(limits.CGROUPS.glob(f"**/leveret-chaos-cpu-{victim.pid}"))


@needs_cgroups
def test_a_process_that_takes_more_memory_than_it_may_is_killed(victim: subprocess.Popen[str]) -> None:
    limited = Limits(victim.pid)
    limited.limit_memory(32 * MIB)
    try:
        assert told(victim, f"take {MIB}") == "taken"
        assert victim.stdin is not None
        victim.stdin.write(f"take {256 * MIB}\n")
        victim.stdin.flush()
        assert victim.wait(WITHIN_S) == -signal.SIGKILL
        assert limited.have_bitten()
    finally:
        limited.remove()
