"""What a worker of a cluster lacks is said in one sentence."""

from __future__ import annotations

import os
import pickle
import re
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from analytics.inputs import LogFile
from analytics.spark.cluster_workers import WorkerLook, heads_of, in_one_line, looker, what_is_wrong
from analytics.spark.sent_wheel import NEEDED, UNPACKED, sent
from analytics.spark.session import LOCAL, WORKER_PYTHON, is_cluster, worker_python

CLUSTER = "spark://10.0.0.1:7077"
WELL = WorkerLook("w1", "/usr/bin/python3", None, "0.1.0", "compiled")


def log_of(directory: Path, text: bytes) -> LogFile:
    (directory / "log").mkdir(parents=True)
    (directory / "log" / "1.log").write_bytes(text)
    return LogFile("n1", str(directory), "log/1.log", 1, len(text), is_last=True)


def test_a_worker_that_has_all_is_not_complained_of() -> None:
    assert what_is_wrong(WELL, "0.1.0") is None


@pytest.mark.parametrize(
    ("look", "said"),
    [
        (WELL._replace(missing="No module named 'pyarrow'", version=None), "cannot import.*pyarrow.*--wheel"),
        (WELL._replace(version="0.0.9"), r"has Leveret 0\.0\.9, and this is 0\.1\.0"),
        (WELL._replace(unlike=("/data/n1/log/1.log",)), "has not the same /data/n1/log/1.log as this machine"),
    ],
)
def test_what_a_worker_lacks_is_named_with_the_worker(look: WorkerLook, said: str) -> None:
    wrong = what_is_wrong(look, "0.1.0")
    assert wrong is not None
    assert wrong.startswith("worker w1")
    assert re.search(said, wrong)


def test_another_log_in_the_same_place_is_not_taken_for_ours(tmp_path: Path) -> None:
    """As on brokers that are workers too: each has a /var/lib/leveret."""
    heads = heads_of([log_of(tmp_path / "n1", b"the log of n1")])
    path = str(tmp_path / "n1" / "log" / "1.log")
    assert heads == {path: b"the log of n1"}
    assert unlike(heads) == ()
    Path(path).write_bytes(b"the log of n2")
    assert unlike(heads) == (path,)
    Path(path).unlink()
    assert unlike(heads) == (path,)


def unlike(heads: dict[str, bytes]) -> tuple[str, ...]:
    """As a worker finds them, which has all else."""
    look = WorkerLook(*looker(heads, "analytics.inputs")(0))
    assert (look.missing, look.python) == (None, sys.executable)
    return look.unlike


def test_what_looks_is_not_found_by_name() -> None:
    """Else it would be looked for on the worker in a package that may be missing there."""
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(looker({}, "analytics.inputs"))


def test_a_failed_task_is_told_without_stacks() -> None:
    python = "Job aborted: PythonException: Traceback:\n  File x\nRuntimeError: Python 3.9\n\n\tat org.apache.A\n\tat B"
    assert in_one_line(python) == "Job aborted: PythonException: Traceback: RuntimeError: Python 3.9"
    assert in_one_line("Job aborted: IOException: no python\n\tat A") == "Job aborted: IOException: no python"


def test_workers_of_a_cluster_may_have_another_python_and_this_process_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORKER_PYTHON, "/opt/python")
    assert worker_python(CLUSTER) == "/opt/python"
    assert worker_python(LOCAL) == sys.executable
    monkeypatch.delenv(WORKER_PYTHON)
    assert worker_python(CLUSTER) == sys.executable
    assert (is_cluster(CLUSTER), is_cluster("local[2]")) == (True, False)


def test_a_wheel_is_sent_as_what_spark_unpacks_and_found_by_the_python_of_workers_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/before")
    wheel, scratch = tmp_path / "leveret_server.whl", tmp_path / "scratch"
    scratch.mkdir()
    with ZipFile(wheel, "w") as files:
        files.writestr(NEEDED, "")
    settings = sent(wheel, scratch)
    archive, _, place = settings["spark.archives"].partition("#")
    assert Path(archive).read_bytes() == wheel.read_bytes()
    assert place == settings["spark.executorEnv.PYTHONPATH"] == UNPACKED
    assert os.environ["PYTHONPATH"] == f"{scratch / UNPACKED}:/before"
    assert (scratch / UNPACKED / NEEDED).exists()


@pytest.mark.parametrize("names", [[], ["other/__init__.py"]])
def test_what_is_no_wheel_of_leveret_is_not_sent(tmp_path: Path, names: list[str]) -> None:
    wheel = tmp_path / "other.whl"
    with ZipFile(wheel, "w") as files:
        for name in names:
            files.writestr(name, "")
    with pytest.raises(ValueError, match=r"other\.whl is no wheel of Leveret"):
        sent(wheel, tmp_path)
    wheel.write_text("text")
    with pytest.raises(ValueError, match=r"other\.whl is no wheel of Leveret"):
        sent(wheel, tmp_path)
