"""A short run of the fuzzer of the management API with every test run; `make fuzz` runs a million requests of it."""

from __future__ import annotations

from tests.fuzz.http_requests import main


def test_mutated_requests_are_answered_and_none_is_a_fault_of_the_node() -> None:
    assert main(["--requests", "20000", "--seed", "1"]) == 0
