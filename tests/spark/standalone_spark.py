"""A Spark cluster of processes on this machine, begun from what the package of PySpark brings: a master and workers.

Executors are children of the workers, and get their environment.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.process_lines import ProcessLines

HOST = "127.0.0.1"
SPARK_HOME = Path(pyspark.__file__).parent
MASTER_URL = re.compile(r"spark://[^ ,]+:\d+")
STOPS_WITHIN_S = 30.0
BEGINS_WITHIN_S = 180.0  # a JVM beside much other work
# What the driver reads beside what it is told: it waits until the workers are there, and writes what happens to tasks.
DEFAULTS = """
spark.cores.max 2
spark.scheduler.minRegisteredResourcesRatio 1.0
spark.sql.shuffle.partitions 2
spark.eventLog.enabled true
spark.eventLog.compress false
spark.eventLog.dir file://{events}
"""


class StandaloneSpark:
    """Ended by `end`, process by process."""

    url: str

    def __init__(self, scratch: Path) -> None:
        self.events = scratch / "events"
        self.events.mkdir()
        configuration = scratch / "conf"
        configuration.mkdir()
        (configuration / "spark-defaults.conf").write_text(DEFAULTS.format(events=self.events))
        self._scratch = scratch
        self._environment = {
            "PATH": os.environ["PATH"],
            **({"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {}),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        }
        self.of_driver = {"SPARK_LOCAL_IP": HOST, "SPARK_CONF_DIR": str(configuration)}
        self._processes: list[ProcessLines] = []

    def begin(self) -> None:
        master = self._begin("master.Master", "--host", HOST, "--port", "0", "--webui-port", "0")
        line = master.lines[master.said("Starting Spark master at", within_s=BEGINS_WITHIN_S) - 1]
        found = MASTER_URL.search(line)
        assert found is not None, line
        self.url = found[0]

    def begin_worker(self, **environment: str) -> ProcessLines:
        """With one core, and with this in its environment. Returns when the master knows it."""
        directory = self._scratch / f"work-{len(self._processes)}"
        options = ["--host", HOST, "--port", "0", "--webui-port", "0", "-c", "1", "-m", "1g", "-d", str(directory)]
        worker = self._begin("worker.Worker", *options, self.url, **environment)
        worker.said("Successfully registered with master", within_s=BEGINS_WITHIN_S)
        return worker

    def ends_of_tasks(self) -> set[str]:
        """How tasks have ended, of all drivers that have come to their end."""
        reasons: set[str] = set()
        for file in self.events.rglob("events_*"):
            for line in file.read_text().splitlines():
                event = json.loads(line)
                if event["Event"] == "SparkListenerTaskEnd":
                    reasons.add(event["Task End Reason"]["Reason"])
        return reasons

    def end(self) -> None:
        for one in reversed(self._processes):  # the master last
            if one.process.poll() is None:
                one.process.send_signal(signal.SIGTERM)
            try:
                one.process.wait(STOPS_WITHIN_S)
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait(STOPS_WITHIN_S)

    def _begin(self, name: str, *arguments: str, **environment: str) -> ProcessLines:
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
        begun = ProcessLines(command, self._environment | environment, self._scratch)
        self._processes.append(begun)
        return begun


@contextmanager
def standalone_spark(scratch: Path) -> Iterator[StandaloneSpark]:
    """A master only: tests begin the workers that they need."""
    spark = StandaloneSpark(scratch)
    try:
        spark.begin()
        yield spark
    finally:
        spark.end()


def ancestors(pid: int) -> list[int]:
    """The processes that began it, the nearest first."""
    found = []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(pid)
    return found
