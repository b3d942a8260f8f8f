"""A Spark session for questions about logs, or one clear sentence about what is missing.

Workers run the Python of the driver and import this package: on a cluster Leveret is installed on them, or is sent along
(sent_wheel.py).
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTRA = "pip install 'leveret-server[analytics]'"
JAVA_MIN = 17
JAVA_PACKAGE = "openjdk-17-jre-headless"
JAVA_TIMEOUT_S = 30
LOCAL = "local[*]"
WORKER_PYTHON = "PYSPARK_PYTHON"  # Spark's name for it
TASKS_OF_A_SHUFFLE = "spark.sql.shuffle.partitions"
# Spark puts tasks behind a shuffle together again, by itself into as many as there are cores, of which one may be twice as long
# as another. Those of less than a megabyte it puts together in any case.
FEWEST_TASKS = "spark.sql.adaptive.coalescePartitions.minPartitionNum"
TASKS_PER_CORE = 4
NOTHING_MORE: Mapping[str, str] = {}
# For short questions, which most are: less is compiled before they are answered, and little memory needs little collecting.
# The first option alone leaves 48 MB for compiled code, and each question compiles some: a session ended with "Out of space
# in CodeCache". 240 MB is what Java has without it. A heap begins with a 64th of the machine's memory otherwise, and a third of
# it, for new objects, is filled whether that is needed or not: rows do not stay in Java.
JAVA_OPTIONS = "-XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -Xms64m -XX:MaxNewSize=96m"
FOR_SHORT_QUESTIONS = " -XX:TieredStopAtLevel=1"
# Where much is read the second compiler pays, which takes a core from the workers meanwhile: four times as seldom as by itself.
FOR_LONG_QUESTIONS = "".join(
    f" -XX:Tier4{name}={count}"
    for name, count in (
        ("InvocationThreshold", 20_000),
        ("MinInvocationThreshold", 2_400),
        ("CompileThreshold", 60_000),
        ("BackEdgeThreshold", 160_000),
    )
)
LONG_BYTES = 1 << 30  # of logs: rows of so much go through code twice as fast that was compiled as well as Java can
# Arrow's own allocator keeps what the largest piece of a file took, and glibc has a heap for each thread. Spark has workers
# for each environment there is, and says the last of these to those of tables by itself: what is no table, as a conversion, had
# as many more of its own, of 100 MB each.
WORKER_ENVIRONMENT = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "SPARK_SIMPLIFIED_TRACEBACK": "1",
}
# A stream notes how far it has come in four files for each batch, and a checksum beside each. Through Hadoop's FileContext, as
# Spark has it by default, some 40 processes are started for them (chmod, stat, readlink); and Hadoop has checksums already.
STREAMING = "spark.sql.streaming"
CHECKPOINTS = {
    f"{STREAMING}.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    f"{STREAMING}.checkpoint.fileChecksum.enabled": "false",
}
SOCKETS = "spark.python.unix.domain.socket"
SOCKET_NAME_BYTES = len(f"/.{'0' * 36}.sock")  # as Spark names them
SOCKET_PATH_BYTES_MAX = 103  # where systems allow the least
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


class NoSpark(Exception):
    """Something is missing; the text says what, and what to do."""


def check_java() -> None:
    """Raises NoSpark. Spark itself would print a page of a shell script's errors."""
    command = java_command()
    if command is None:
        raise NoSpark(
            f"Spark needs Java {JAVA_MIN} or later and there is no java here, neither in JAVA_HOME nor in PATH. "
            f"On Debian: apt-get install {JAVA_PACKAGE}"
        )
    version = java_version(command)
    if version < JAVA_MIN:
        raise NoSpark(
            f"Spark needs Java {JAVA_MIN} or later, and {command} is Java {version}. "
            f"On Debian: apt-get install {JAVA_PACKAGE}, and set JAVA_HOME to it"
        )


def java_command() -> str | None:
    """The java that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    if home:
        command = Path(home) / "bin" / "java"
        return str(command) if command.exists() else None
    return shutil.which("java")


def java_version(command: str) -> int:
    """Its major version. Raises NoSpark."""
    try:
        done = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoSpark(f"{command} cannot be started: {error}") from error
    found = _VERSION.search(done.stderr) or _VERSION.search(done.stdout)
    if found is None:
        raise NoSpark(f"{command} -version does not say which Java it is: {(done.stderr or done.stdout)[:200]!r}")
    return int(found[1])


def spark_session(
    url: str = LOCAL, memory: str = "1g", more: Mapping[str, str] = NOTHING_MORE, log_bytes: int = 0
) -> SparkSession:
    """Start one, or join the one of this process. `more`: settings. `log_bytes`: there are to be read. Raises NoSpark."""
    try:
        from py4j.protocol import Py4JJavaError
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise NoSpark(f"{error.name} is not installed: {EXTRA}") from error
    check_java()
    say_times_in_utc()
    os.environ[WORKER_PYTHON] = worker_python(url)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(url).appName("leveret-analytics")
    sockets = {} if is_cluster(url) else socket_settings(socket_directory())
    for name, value in {**settings(memory, log_bytes), **sockets, **more}.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except Py4JJavaError as error:
        said, _, _ = error.java_exception.getMessage().partition("\n")
        raise NoSpark(f"{url} gives no session: {said}") from error
    session.sparkContext.setLogLevel("ERROR")
    _say_errors_once()
    if not is_cluster(url):
        divide_by_cores(session)
    return session


def said_by(error: Exception) -> str:
    """What an error of Spark comes to. One of Python on a worker has a traceback before that, others say it first."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return lines[-1 if any(line.startswith("Traceback ") for line in lines) else 0].strip()


def say_times_in_utc() -> None:
    """Spark gives its times to Python by the zone of the process, whatever that of the session is. The hour that autumn has
    twice would look the same both times."""
    os.environ["TZ"] = "UTC"
    time.tzset()


def divide_by_cores(session: SparkSession) -> None:
    """What Spark distributes in 200 tasks by itself is some for each core of this machine, unless the user's Spark says how
    many. More would only take turns, at a twentieth of a second each; fewer would leave cores idle behind the largest queue."""
    context = session.sparkContext
    said = context.getConf()
    for name in (TASKS_OF_A_SHUFFLE, FEWEST_TASKS):
        if said.get(name) is None:
            session.conf.set(name, str(TASKS_PER_CORE * context.defaultParallelism))


@cache
def socket_directory() -> Path:
    """Which nobody else may enter, for Spark does not ask who connects; as long as this process lives."""
    directory = tempfile.mkdtemp(prefix="leveret-analytics-")
    atexit.register(partial(shutil.rmtree, directory, ignore_errors=True))
    return Path(directory)


def socket_settings(directory: Path) -> dict[str, str]:
    """Rows pass between Java and Python of one machine through sockets of files, at a quarter of what TCP takes; not where the
    path of one would be too long."""
    if len(os.fsencode(directory)) + SOCKET_NAME_BYTES > SOCKET_PATH_BYTES_MAX:
        return {}
    return {f"{SOCKETS}.enabled": "true", f"{SOCKETS}.dir": str(directory)}


def is_cluster(url: str) -> bool:
    """Whether workers are processes that somebody else starts."""
    return not url.startswith("local")


def worker_python(url: str) -> str:
    """On a cluster it may be another one than this, but lies in the same place everywhere, here too."""
    return os.environ.get(WORKER_PYTHON, sys.executable) if is_cluster(url) else sys.executable


def _say_errors_once() -> None:
    """What is wrong with a question is an exception; Spark's own log has a page of JSON for it, too."""
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)


def settings(memory: str, log_bytes: int) -> dict[str, str]:
    return {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": JAVA_OPTIONS
        + (FOR_SHORT_QUESTIONS if log_bytes < LONG_BYTES else FOR_LONG_QUESTIONS),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        **CHECKPOINTS,
        **{f"spark.executorEnv.{name}": value for name, value in WORKER_ENVIRONMENT.items()},
    }
