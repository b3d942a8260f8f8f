"""What a worker of Spark has imported is looked through for garbage once, and nothing of any other process is set aside."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import pytest

from analytics.spark.kept_modules import RUNTIME, WORKER, keep_modules

SET_ASIDE = (
    "import gc; from analytics.spark.kept_modules import keep_modules as k; k(); k(); print(gc.get_freeze_count())"
)


@pytest.mark.parametrize(("runtime", "is_worker"), [(WORKER, True), ("another", False)])
def test_modules_are_set_aside_in_a_worker_only(runtime: str, is_worker: bool) -> None:
    environment = {**os.environ, RUNTIME: runtime, "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run(
        [sys.executable, "-c", SET_ASIDE], env=environment, capture_output=True, text=True, check=True
    )
    assert (int(said.stdout) > 1_000) is is_worker
    before = gc.get_freeze_count()
    keep_modules()
    assert gc.get_freeze_count() == before, "this process is no worker"
