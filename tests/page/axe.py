"""axe-core, which finds what people with a keyboard, a reader of screens or weak eyes would stumble over."""

from __future__ import annotations

import tarfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.page.browser import PageBrowser

# `make test-page` fetches it from npm. It is used as it is, and is no part of the tree.
ARCHIVE = Path(__file__).parents[2] / "build" / "axe-core-4.14.1.tgz"
SOURCE = "package/axe.min.js"
GRAVE = ("serious", "critical")
RUN = """
const done = arguments[0];
axe.run(document, {resultTypes: ["violations"]}).then((found) => done(found.violations), (error) => done(String(error)));
"""


@cache
def source() -> str:
    with tarfile.open(ARCHIVE) as archive:
        found = archive.extractfile(SOURCE)
        assert found is not None, f"{ARCHIVE} has no {SOURCE}"
        return found.read().decode()


def grave_findings(browser: PageBrowser) -> list[str]:
    """In what is shown now."""
    browser.driver.execute_script(source())
    found: list[dict[str, Any]] | str = browser.driver.execute_async_script(RUN)
    assert not isinstance(found, str), found
    return [_said(one) for one in found if one["impact"] in GRAVE]


def _said(finding: dict[str, Any]) -> str:
    where = [f"{one['html'][:160]} {one['failureSummary']}" for one in finding["nodes"][:3]]
    return f"{finding['id']}: {finding['help']}: {where}"
