"""A short run of the fuzzer of the stream protocol with every test run; CI runs millions of frames of it."""

from __future__ import annotations

from tests.fuzz.stream_frames import main


def test_mutated_frames_break_nothing() -> None:
    assert main(["--frames", "30000", "--seed", "1"]) == 0
