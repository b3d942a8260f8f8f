"""Which tests of tests/unit are too long for `make unit`, by measurement.

A test is long if it took more than 0.2 seconds of an idle machine; of those of a class or a table, the longest counts. The
names are in tests/unit/long_tests.txt, which `make unit-times` writes anew from what it measures.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterator
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tests" / "unit" / "long_tests.txt"
LONG_S = 0.2


@cache
def long_tests() -> frozenset[str]:
    """Names as pytest has them, without arguments: tests/unit/broker/test_x.py::TestY::test_z."""
    return frozenset(LIST.read_text().split())


def is_long(nodeid: str, known: Container[str]) -> bool:
    return nodeid.partition("[")[0] in known


def measured(report: Path) -> Iterator[str]:
    """The long ones of a report that pytest has written as XML."""
    for case in ElementTree.parse(report).iter("testcase"):
        if float(case.attrib["time"]) > LONG_S:
            yield name_of(case.attrib["classname"], case.attrib["name"])


def name_of(scope: str, test: str) -> str:
    """`tests.unit.broker.test_x.TestY` and `test_z[1]`: the report has no paths."""
    parts = scope.split(".")
    classes = [part for part in parts if part[0].isupper()]
    path = "/".join(parts[: len(parts) - len(classes)]) + ".py"
    return "::".join([path, *classes, test.partition("[")[0]])


def main(reports: list[str]) -> None:
    names = sorted({name for report in reports for name in measured(Path(report))})
    LIST.write_text("".join(f"{name}\n" for name in names))
    print(f"{len(names)} tests take more than {LONG_S} s: {LIST.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1:])
