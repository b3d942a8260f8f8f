"""Run a command where a container engine answers and has the image of this source. Without one: the tests of this folder.

    python -m tests.containers
    python -m tests.containers --spark
    python -m tests.containers python -m tests.chaos --backend containers leader-isolated

With --spark there is also what the image of the profile `analytics` is made of, and without a command its tests run.
An engine that answers already is used. Where none does, one is installed and runs for as long as the command (engine.py);
that needs root. The exit code is the command's, or 69 where there can be no engine.
"""

from __future__ import annotations

import sys

from tests.containers import engine, image, spark_image

UNAVAILABLE = 69
WITH_SPARK = "--spark"
TESTS = (sys.executable, "-m", "pytest", "tests/containers", "-q", "-m")


def main() -> None:
    with_spark = sys.argv[1:2] == [WITH_SPARK]
    command = tuple(sys.argv[2 if with_spark else 1 :]) or (*TESTS, "spark_containers" if with_spark else "containers")
    if why_not := engine.unavailable():
        print(f"NOT RUN: {' '.join(command)}: {why_not}", file=sys.stderr)
        sys.exit(UNAVAILABLE)
    engine.install()
    if with_spark:
        spark_image.prepare()
    engine.run(command, image.prepared())


if __name__ == "__main__":
    main()
