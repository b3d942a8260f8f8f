"""`make test` collects every test, and installs no extra that only some of them need: those import it when they run."""

from __future__ import annotations

import subprocess
import sys
import tomllib

from packaging.requirements import Requirement

from tests.tidy.sources import ROOT

# In a process of its own: here the modules may have been imported, and a machine that has run `make test-spark` has the extra.
COLLECT = "import sys; sys.modules.update(dict.fromkeys(sys.argv[1:])); import pytest; sys.exit(pytest.main({options}))"
OPTIONS = ["tests/spark", "--collect-only", "--quiet", "-m", "spark"]


def test_the_tests_of_spark_are_collected_where_their_packages_are_not_installed() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    packages = [Requirement(text).name for text in extras["analytics"]]
    command = [sys.executable, "-c", COLLECT.format(options=OPTIONS), *packages]
    collected = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert collected.returncode == 0, collected.stdout + collected.stderr
