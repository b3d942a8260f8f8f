"""The same questions on a cluster of Spark, whose workers know nothing of the directory in which Leveret was developed."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import pytest

from analytics.inputs import log_files, snapshot_files
from tests.running_cluster import running_cluster
from tests.spark.conftest import Ask, worked_on
from tests.spark.worker_pythons import bare_python, packages_of, plain_wheel, with_kernels

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.process_lines import ProcessLines
    from tests.spark.standalone_spark import StandaloneSpark

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]  # several Sparks one after the other

ANSWER_TIMEOUT_S = 240.0
HELD_WITHIN_S = 120.0
GONE_WITHIN_S = 30.0
TABLES = ("lives", "events", "queues.parquet", "actors.parquet")
FATES = "select name, state, sum(count) as messages from lives join queues using (queue) group by all order by all"
HELD_READS = "held_reads"
# A disk that stalls: in a worker that has the variable, whoever reads on in a file says so to a pipe, and waits for ever.
STALLING = f"""
import os, signal

def pread(descriptor, size, offset, read=os.pread):
    if offset and os.path.exists(os.environ["{HELD_READS.upper()}"]):
        with open(os.environ["{HELD_READS.upper()}"], "w") as told:
            told.write(str(os.getpid()))
        signal.pause()
    return read(descriptor, size, offset)

if "{HELD_READS.upper()}" in os.environ:
    os.pread = pread
"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the data of the three nodes of a cluster."""
    directory = tmp_path_factory.mktemp("nodes") / "data"
    with running_cluster(directory) as cluster:
        host, port = cluster.amqp(1)
        worked_on(f"amqp://guest:guest@{host}:{port}/")
    return directory


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plain_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    from tests.spark.standalone_spark import standalone_spark

    with standalone_spark(tmp_path_factory.mktemp("standalone")) as spark:
        yield spark


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pipe of STALLING. Nothing stalls as long as it is not made."""
    return tmp_path_factory.mktemp("held") / "pipe"


@pytest.fixture(scope="module")
def doomed(cluster: StandaloneSpark, held: Path) -> ProcessLines:
    """The worker that may be made to stall, and be killed. Another one is there as well."""
    cluster.begin_worker()
    return cluster.begin_worker(**{HELD_READS.upper(): str(held)})


@pytest.fixture(scope="module")
def told_here(spark: SparkSession, nodes: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The tables as a Spark within one process makes them."""
    from analytics.parquet.convert import convert

    paths, directory = [str(nodes)], tmp_path_factory.mktemp("here")
    convert(spark, log_files(paths), snapshot_files(paths), directory)
    return tables(directory)


def tables(directory: Path) -> dict[str, list[str]]:
    """All rows of each, and what they stand on."""
    import pyarrow.dataset as ds

    found = {
        name: sorted(map(repr, ds.dataset(directory / name, partitioning="hive").to_table().to_pylist()))
        for name in TABLES
    }
    return {**found, "coverage": [(directory / "coverage.json").read_text()]}


def begun(cluster: StandaloneSpark, python: Path, nodes: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "analytics", "--master", cluster.url, "--data", str(nodes), *arguments]
    environment = os.environ | cluster.of_driver | {"PYSPARK_PYTHON": str(python)}
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


def answer_of(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it printed, and what it printed as errors."""
    try:
        said, errors = process.communicate(timeout=ANSWER_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == 0, errors
    return said, errors


def test_workers_to_which_a_wheel_is_sent_tell_the_same_as_one_process(
    cluster: StandaloneSpark,
    doomed: ProcessLines,
    nodes: Path,
    wheel: Path,
    told_here: dict[str, list[str]],
    ask: Ask,
    tmp_path: Path,
) -> None:
    """They have Spark's packages only, and compiled kernels out of the wheel."""
    python, sent = bare_python(tmp_path / "bare"), with_kernels(wheel, tmp_path / "whole")
    process = begun(cluster, python, nodes, "--wheel", str(sent), "convert", str(tmp_path / "tables"))
    _, errors = answer_of(process)
    assert tables(tmp_path / "tables") == told_here
    assert "kernels" not in errors
    process = begun(cluster, python, nodes, "--wheel", str(sent), "--json", "sql", FATES)
    rows: list[dict[str, Any]] = json.loads(answer_of(process)[0])["rows"]
    assert (0, rows) == ask(nodes, "sql", FATES)


def test_workers_that_have_nothing_of_leveret_are_named_before_anything_is_asked(
    cluster: StandaloneSpark, doomed: ProcessLines, nodes: Path, tmp_path: Path
) -> None:
    python = bare_python(tmp_path / "bare")
    process = begun(cluster, python, nodes, "queues")
    _, errors = process.communicate(timeout=ANSWER_TIMEOUT_S)
    assert process.returncode == 64
    said = errors.splitlines()[-1]
    assert f"with {python}, cannot import what questions need (No module named 'analytics')" in said, errors
    assert said.endswith("install the wheel there, or send it with --wheel")


def test_a_worker_that_is_killed_in_mid_job_costs_time_only(
    cluster: StandaloneSpark,
    doomed: ProcessLines,
    held: Path,
    nodes: Path,
    wheel: Path,
    told_here: dict[str, list[str]],
    tmp_path: Path,
) -> None:
    """Workers with a wheel that was installed without compiled kernels, about which they warn."""
    from tests.spark.standalone_spark import ancestors

    python = installed_python(tmp_path / "installed", wheel)
    os.mkfifo(held)
    pipe = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
    process = begun(cluster, python, nodes, "convert", str(tmp_path / "tables"))
    try:
        readable, _, _ = select.select([pipe], [], [], HELD_WITHIN_S)
        assert readable, "no task reads on the worker that is to be killed"
        reading = int(os.read(pipe, 32))
        assert doomed.process.pid in ancestors(reading)
        assert process.poll() is None
        doomed.process.kill()
        _, errors = answer_of(process)
        until_gone(reading)
    finally:
        os.close(pipe)
        held.unlink()
        process.kill()
    assert "has no compiled kernels" in errors
    assert tables(tmp_path / "tables") == told_here
    assert "ExecutorLostFailure" in cluster.ends_of_tasks()


def installed_python(directory: Path, wheel: Path) -> Path:
    """A bare Python with the wheel, and with a disk that can be made to stall."""
    python = bare_python(directory)
    place = packages_of(directory)
    with ZipFile(wheel) as files:
        files.extractall(place)
    (place / f"{HELD_READS}.py").write_text(STALLING)
    (place / f"{HELD_READS}.pth").write_text(f"import {HELD_READS}\n")
    return python


def until_gone(pid: int) -> None:
    """A task's process, whose worker is gone."""
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            readable, _, _ = select.select([handle], [], [], GONE_WITHIN_S)
            assert readable, f"process {pid} goes on without its worker"
        finally:
            os.close(handle)
