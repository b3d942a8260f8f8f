"""docs/formats.md is what the modules say, and no module that lays out bytes on disk is missing from it."""

from __future__ import annotations

import re

from tests.tidy.formats import CHAPTERS, PAGE, docstring, packing, page

LISTED = {module for modules in CHAPTERS.values() for module in modules}
# One is JSON, the other a row of numbers: a sentence says it.
IN_WORDS = {"storage/fact_file.py", "storage/segment_index.py"}


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"


def test_each_module_that_lays_out_bytes_is_on_the_page() -> None:
    missing = set(packing("storage")) - LISTED
    assert missing == set(), "draw the bytes in the docstring, and add it to tests/tidy/formats.py"


def test_no_chapter_is_empty() -> None:
    assert [chapter for chapter, modules in CHAPTERS.items() if not modules] == []


def test_each_module_on_the_page_draws_its_bytes() -> None:
    without = [module for module in LISTED if not re.search(r"^    \S", docstring(module), re.MULTILINE)]
    assert set(without) == IN_WORDS, "draw the bytes as an indented table"
