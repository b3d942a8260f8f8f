"""One folder, one idea; one file, one noun: what is larger than others says here why it is one, or is split along one."""

from __future__ import annotations

import ast
from collections import Counter
from statistics import median

from tests.tidy.sources import CLIENT, ROOT, SERVER, sources

FILE_LINES_MAX = 500
LARGE_FILES = {
    "classic/queue.py": "the contract of a queue over what one queue has: each call of it works on the same four sets of"
    " messages, and on the way of a message no further call may stand between. What has a noun of its own is out:"
    " consumers, deferred work, leaving, expiry, fence, figures, browsing, copying",
    "classic/variable_queue.py": "one state machine: its five parts and the invariants over all of them, which are asserted"
    " after every move; a tenth of it is the picture of that",
    "native/_amqp10_items.pyx": "twin of amqp10_items: one walk over a message, both ways, in C without calls of Python",
    "native/_frame_split.pyx": "twin of frame_split: one walk over what a socket brought, in C without calls of Python",
    "native/_log_columns.pyx": "twin of log_columns and entry_rows: one walk over a piece of a log, in C as well",
}
FOLDER_MODULES_MAX = 25
LARGE_FOLDERS = {
    "native": "pure functions over buffers: half of its files are compiled twins of the other half",
}
FUNCTION_MEDIAN_MAX, FUNCTION_P95_MAX = 5, 20


def lines() -> dict[str, int]:
    kernels = [str(path.relative_to(ROOT)) for path in ROOT.glob("native/*.pyx")]
    return {name: (ROOT / name).read_text().count("\n") for name in (*sources(), *kernels)}


def test_files_can_be_held_in_mind() -> None:
    assert {name for name, count in lines().items() if count > FILE_LINES_MAX} == LARGE_FILES.keys()


def test_folders_can_be_held_in_mind() -> None:
    names = [name.rpartition("/") for name in lines()]
    modules = Counter(folder for folder, _, file in names if file != "__init__.py")
    assert modules.keys() >= {*SERVER, CLIENT} - {"wire"}
    assert {folder for folder, count in modules.items() if count > FOLDER_MODULES_MAX} == LARGE_FOLDERS.keys()


def test_functions_stay_short() -> None:
    """Half of them have five lines at most, with their heads; nineteen of twenty have twenty."""
    found = sorted(
        (node.end_lineno or 0) - node.lineno + 1
        for tree in sources().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    assert median(found) <= FUNCTION_MEDIAN_MAX
    assert found[len(found) * 95 // 100] <= FUNCTION_P95_MAX
