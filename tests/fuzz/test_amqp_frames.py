"""A short run of the frame fuzzer with every test run; CI runs millions of frames of it."""

from __future__ import annotations

from tests.fuzz.amqp_frames import main


def test_mutated_frames_break_nothing() -> None:
    assert main(["--frames", "30000", "--seed", "1"]) == 0
