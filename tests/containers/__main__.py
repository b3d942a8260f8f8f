"""Run a command where a container engine answers and has the image of this source. Without one: the tests of this folder.

    python -m tests.containers
    python -m tests.containers python -m tests.chaos --backend containers leader-isolated

An engine that answers already is used. Where none does, one is installed and runs for as long as the command (engine.py);
that needs root. The exit code is the command's, or 69 where there can be no engine.
"""

from __future__ import annotations

import sys

from tests.containers import engine, image

UNAVAILABLE = 69
TESTS = (sys.executable, "-m", "pytest", "tests/containers", "-m", "containers", "-q")


def main() -> None:
    command = tuple(sys.argv[1:]) or TESTS
    if why_not := engine.unavailable():
        print(f"NOT RUN: {' '.join(command)}: {why_not}", file=sys.stderr)
        sys.exit(UNAVAILABLE)
    engine.install()
    engine.run(command, image.prepared())


if __name__ == "__main__":
    main()
