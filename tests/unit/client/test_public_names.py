"""What `import leveret` promises is there, and a server that needs the generated stubs only does not load the client."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import leveret
from leveret import errors, records

CLIENT = Path(leveret.__file__).parents[1]


@pytest.mark.parametrize("name", leveret.__all__)
def test_a_public_name_is_that_of_its_module(name: str) -> None:
    value = getattr(leveret, name)
    assert name in dir(leveret)
    if hasattr(value, "__module__"):
        assert getattr(sys.modules[value.__module__], name) is value


def test_public_modules_need_no_import_of_their_own() -> None:
    assert leveret.errors is errors and leveret.records is records
    with pytest.raises(AttributeError, match="module 'leveret' has no attribute 'nothing'"):
        _ = leveret.nothing  # type: ignore[attr-defined]


def test_stubs_come_without_the_client() -> None:
    program = "import sys, leveret.v1.message_pb2; print(*(name for name in sys.modules if name.startswith('leveret')))"
    command = [sys.executable, "-c", program]
    loaded = subprocess.run(command, env={"PYTHONPATH": str(CLIENT)}, capture_output=True, text=True, check=True).stdout
    assert set(loaded.split()) == {"leveret", "leveret.v1", "leveret.v1.message_pb2"}
