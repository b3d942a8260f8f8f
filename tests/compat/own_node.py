"""Runs client suites against a node that is started for them. `python -m tests.compat.own_node [arguments of suites]`"""

from __future__ import annotations

import subprocess
import sys

from tests.running_node import running_node


def main() -> int:
    with running_node() as node:
        command = [sys.executable, "-m", "tests.compat.suites"]
        for name in ("amqp", "http", "stream"):
            host, port = node.addresses[name]
            command += [f"--{name}", f"{host}:{port}"]
        command += sys.argv[1:]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
