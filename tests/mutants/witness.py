"""A pytest plugin: ends the run at the first assertion that fails, and writes down which it was.

Any other exception is written down as a crash, and the run goes on: a mutant that merely falls over has not been understood.
With `--all-witnesses` the run goes on in any case. Each line of the file that `--witness` names is one JSON object; the last
one says how much of a processor the run has taken.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Generator
from pathlib import Path

import pytest

import raft


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--witness", metavar="FILE", help="where to write down what failed")
    parser.addoption("--cpu-seconds", type=int, metavar="N", help="SIGXCPU ends a run that takes more of a processor")
    parser.addoption("--all-witnesses", action="store_true", help="do not end at the first assertion that fails")


def pytest_sessionstart(session: pytest.Session) -> None:
    """The tests are to see the mutant, and not the tree that is installed beside it."""
    seen = Path(str(raft.__file__)).resolve()
    assert seen.is_relative_to(Path.cwd().resolve()), f"{seen} was imported, which is not below {Path.cwd()}"
    if (limit := session.config.getoption("--cpu-seconds")) is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and call.excinfo is not None:
        error = call.excinfo.value
        told = next((one for one in _leaves(error) if isinstance(one, AssertionError | pytest.fail.Exception)), None)
        line: dict[str, object] = {
            "test": item.nodeid,
            "asserted": told is not None,
            "why": f"{type(told or error).__name__}: {str(told or error).strip()}".partition("\n")[0],
        }
        _write_down(item.config, line)
        if told is not None and not item.config.getoption("--all-witnesses"):
            item.session.shouldfail = "an assertion failed"
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    _write_down(session.config, {"cpu_s": time.process_time()})


def _write_down(config: pytest.Config, line: dict[str, object]) -> None:
    if config.getoption("--witness"):
        with Path(config.getoption("--witness")).open("a") as file:
            file.write(json.dumps(line) + "\n")


def _leaves(error: BaseException) -> list[BaseException]:
    """Hypothesis raises a group when it has found several failures."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in _leaves(one)]
    return [error]
