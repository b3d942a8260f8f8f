"""What the workers of a cluster have, asked before anything else, so that what is missing is said in one sentence.

Workers that join later are not asked; they meet the same files under the same paths, or the question fails.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from analytics.inputs import LogFile
from analytics.spark.session import NoSpark
from storage.record import ROLL_BYTES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROJECT = "leveret-server"
NEEDED = "analytics.parquet.convert"  # imports all that any task does
LOOKS_PER_CORE = 2  # a worker that is slow to start has some left
PLAIN = "plain"
SEE = "workers must see the logs under the same paths"
INSTALL = "install the wheel there, or send it with --wheel"


class WorkerLook(NamedTuple):
    """What one worker has."""

    host: str
    python: str
    missing: str | None = None  # what it cannot import, and why
    version: str | None = None
    kernels: str | None = None
    unlike: tuple[str, ...] = ()  # files that are not what they are here


def check_workers(spark: SparkSession, files: Collection[LogFile]) -> None:
    """Warns where kernels are plain. Raises NoSpark."""
    for look in workers_looks(spark, heads_of(files)):
        if wrong := what_is_wrong(look, version(PROJECT)):
            raise NoSpark(wrong)
        if look.kernels == PLAIN:
            print(
                f"worker {look.host} has no compiled kernels, and reads logs some hundred times slower", file=sys.stderr
            )


def heads_of(files: Collection[LogFile]) -> dict[str, bytes]:
    """Of one file of each node how it begins, which names its log: other nodes have other logs in the same place."""
    found: dict[str, bytes] = {}
    for file in files:
        if file.is_last:  # the one that its node does not delete meanwhile
            path = Path(file.directory, file.name)
            with path.open("rb") as opened:
                found[str(path)] = opened.read(ROLL_BYTES)
    return found


def what_is_wrong(look: WorkerLook, here: str) -> str | None:
    """`here`: the version of this."""
    who = f"worker {look.host}, with {look.python},"
    if look.missing is not None:
        return f"{who} cannot import what questions need ({look.missing}): {INSTALL}"
    if look.version != here:
        return f"{who} has Leveret {look.version}, and this is {here}: {INSTALL}"
    if look.unlike:
        return f"worker {look.host} has not the same {look.unlike[0]} as this machine: {SEE}"
    return None


def workers_looks(spark: SparkSession, heads: Mapping[str, bytes]) -> set[WorkerLook]:
    """Of all that take part by now. Raises NoSpark."""
    from py4j.protocol import Py4JJavaError

    context = spark.sparkContext
    looks = context.defaultParallelism * LOOKS_PER_CORE
    context.setLogLevel("WARN")  # where no worker has room for this, Spark says so and waits
    try:
        found = context.parallelize(range(looks), looks).map(looker(heads, NEEDED)).collect()
    except Py4JJavaError as error:
        raise NoSpark(f"workers cannot begin: {in_one_line(error.java_exception.getMessage())}") from error
    finally:
        context.setLogLevel("ERROR")
    return {WorkerLook(*one) for one in found}


def in_one_line(message: str) -> str:
    """What Java says of a task that failed, without the stacks: what happened, and the last word of Python if it raised."""
    said = [line for line in message.partition("\n\tat ")[0].splitlines() if line.strip()]
    return " ".join(said[:1] + said[1:][-1:])


def looker(heads: Mapping[str, bytes], needed: str) -> Callable[[int], tuple[Any, ...]]:
    """What a worker runs. Being a function within one it is sent as it is, not by the name of its module, which a worker may
    not have; so it uses the standard library only, and returns plain values."""

    def look(_: int) -> tuple[Any, ...]:
        import importlib
        import importlib.metadata
        import socket
        import sys

        host, python = socket.gethostname(), sys.executable
        try:
            importlib.import_module(needed)
            kernels = importlib.import_module("native").backend()
            version = importlib.metadata.version("leveret-server")
        except ImportError as error:
            return host, python, str(error)
        unlike = []
        for path, head in heads.items():
            try:
                with open(path, "rb") as file:
                    same = file.read(len(head)) == head
            except OSError:
                same = False
            if not same:
                unlike.append(path)
        return host, python, None, version, kernels, tuple(unlike)

    return look
