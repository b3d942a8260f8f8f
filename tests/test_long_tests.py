"""tests/unit/long_tests.txt: what `make unit` leaves out is there, and is found by its name."""

from __future__ import annotations

import re

from tests.long_tests import LIST, ROOT, is_long, long_tests, name_of

INHERITED = "runTest"  # of a state machine of hypothesis


def test_every_long_test_exists() -> None:
    gone = []
    for name in long_tests():
        file, *inside = name.split("::")
        text = (ROOT / file).read_text() if (ROOT / file).is_file() else ""
        gone += [
            name
            for part in inside
            if part != INHERITED and not re.search(rf"^ *(def|async def|class)? ?{part}\b", text, re.M)
        ]
    assert gone == [], "run `make unit-times`, or take these lines out"


def test_the_list_is_in_order() -> None:
    lines = LIST.read_text().splitlines()
    assert lines == sorted(set(lines))


def test_all_rows_of_a_table_are_long_if_one_is() -> None:
    known = {"tests/unit/broker/test_x.py::TestY::test_z"}
    assert is_long("tests/unit/broker/test_x.py::TestY::test_z[a::b]", known)
    assert not is_long("tests/unit/broker/test_x.py::TestY::test_zz", known)


def test_names_of_a_report_are_those_of_pytest() -> None:
    assert name_of("tests.unit.broker.test_x", "test_z[1]") == "tests/unit/broker/test_x.py::test_z"
    assert name_of("tests.unit.broker.test_x.TestY", "test_z") == "tests/unit/broker/test_x.py::TestY::test_z"
