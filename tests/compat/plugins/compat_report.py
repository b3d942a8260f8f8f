"""pytest plugin: one line per finished test in the file that COMPAT_REPORT names.

A line is `outcome<TAB>node id`, and it is flushed at once, so what finished before a suite was stopped still counts.
A test passed when set-up, call and tear-down all passed; a test that was run again is judged by its last run.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_failed_parts: dict[str, str] = {}


def pytest_configure() -> None:
    Path(os.environ["COMPAT_REPORT"]).write_text("")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "setup":
        _failed_parts.pop(report.nodeid, None)
    if report.outcome != "passed":
        _failed_parts.setdefault(report.nodeid, report.outcome)
    if report.when == "teardown":
        outcome = _failed_parts.pop(report.nodeid, "passed")
        with Path(os.environ["COMPAT_REPORT"]).open("a") as out:
            out.write(f"{outcome}\t{report.nodeid}\n")
