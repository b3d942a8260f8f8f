"""constraints.txt pins each package that pyproject.toml asks for, and what those need. It names no place to get them from."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.tidy.sources import ROOT

PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9.!+_-]+)")
NOT_PINNED = {"analytics", "page"}  # extras that `make setup` does not install


@pytest.fixture(scope="module")
def pins() -> dict[str, Version]:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    found = [PIN.fullmatch(line) for line in lines]
    odd = [line for line, match in zip(lines, found, strict=True) if match is None]
    assert odd == [], "a line is `name==version`: no address of an index, no path, no option"
    return {canonicalize_name(match[1]): Version(match[2]) for match in found if match is not None}


def asked_for() -> list[Requirement]:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = document["project"]["optional-dependencies"]
    texts = document["build-system"]["requires"] + document["project"]["dependencies"]
    texts += [text for extra, part in extras.items() if extra not in NOT_PINNED for text in part]
    return [Requirement(text) for text in texts]


def test_what_pyproject_asks_for_is_pinned_to_a_version_that_it_allows(pins: dict[str, Version]) -> None:
    unpinned = [str(one) for one in asked_for() if canonicalize_name(one.name) not in pins]
    assert unpinned == [], "run `make lock`"
    refused = [str(one) for one in asked_for() if pins[canonicalize_name(one.name)] not in one.specifier]
    assert refused == []


def test_what_those_packages_need_is_pinned_too(pins: dict[str, Version]) -> None:
    waiting, seen, unpinned = asked_for(), set(), set()
    while waiting:
        wanted = waiting.pop()
        key = (canonicalize_name(wanted.name), tuple(sorted(wanted.extras)))
        if key in seen:
            continue
        seen.add(key)
        if key[0] not in pins:
            unpinned.add(key[0])
        try:
            needs = distribution(wanted.name).requires or []
        except PackageNotFoundError:
            continue  # of another platform or another Python
        for text in needs:
            need = Requirement(text)
            if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras)):
                waiting.append(need)
    assert unpinned == set(), "run `make lock`"
