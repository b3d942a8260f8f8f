"""rabbitmqadmin 2.29, a strict client of the management API, says the same commands to a node and to a genuine RabbitMQ.

It drops a whole answer for one value of a wrong type, so what it shows is a check of every field that it knows. Of each command
is compared whether it succeeded, and which columns its tables have. Differences are printed; those that are meant are in
expected/rabbitmqadmin.txt with their reasons (docs/amqp-differences.md).

    python -m tests.compat.rabbitmqadmin --admin rabbitmqadmin --node 127.0.0.1:15672 --rabbitmq 127.0.0.1:25672

Both brokers have the user guest with the password guest, and what the commands make is taken away again by others of them.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
COMMANDS = HERE / "admin_commands.txt"
EXPECTED = HERE / "expected" / "rabbitmqadmin.txt"
COMMAND_S_MAX = 60
USAGE = "Usage: "  # a command that rabbitmqadmin does not take
NUMBER = re.compile(r"\d+(\.\d+)?")
LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()


@dataclass(frozen=True)
class Server:
    """A broker that is asked."""

    host: str
    port: int
    node: str  # its name

    @classmethod
    def at(cls, address: str) -> Server:
        host, _, port = address.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=COMMAND_S_MAX)
        connection.request("GET", "/api/overview", headers={"Authorization": LOGIN})
        overview = json.loads(connection.getresponse().read())
        connection.close()
        return cls(host, int(port), overview["node"])


@dataclass(frozen=True)
class Outcome:
    """What a command came to."""

    succeeded: bool
    shown: str  # as it was
    columns: tuple[str, ...]  # of a table: their names, or those of its rows

    def differs_from(self, other: Outcome) -> str:
        """In words; empty: not at all."""
        if self.succeeded != other.succeeded:
            return f"{_done(self)} here and {_done(other)} there"
        absent = [name for name in other.columns if name not in self.columns]
        return f"columns are missing: {', '.join(absent)}" if self.succeeded and absent else ""


def _done(outcome: Outcome) -> str:
    return "done" if outcome.succeeded else "refused"


def commands() -> Iterator[list[str]]:
    for line in COMMANDS.read_text().splitlines():
        if line and not line.startswith("#"):
            yield _words(line)


def _words(line: str) -> list[str]:
    """JSON is one word, with its quotes."""
    found = re.findall(r"\{.*\}|\"[^\"]*\"|\S+", line)
    return [word[1:-1] if word.startswith('"') else word for word in found]


def run(admin: Sequence[str], server: Server, command: Sequence[str]) -> Outcome:
    words = [server.node if word == "NODE" else word for word in command]
    address = {"RABBITMQADMIN_TARGET_HOST": server.host, "RABBITMQADMIN_TARGET_PORT": str(server.port)}
    done = subprocess.run(
        [*admin, *words],
        capture_output=True,
        text=True,
        timeout=COMMAND_S_MAX,
        check=False,
        env={**os.environ, **address, "RABBITMQADMIN_TABLE_STYLE": "markdown"},
    )
    assert USAGE not in done.stderr, f"{' '.join(words)}: {done.stderr}"
    return Outcome(done.returncode == 0, done.stdout + done.stderr, tuple(_columns(done.stdout)))


def _columns(shown: str) -> Iterator[str]:
    """Of tables in Markdown: what stands above the line of dashes; of those that show one thing, what stands in front."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in shown.splitlines() if line.startswith("|")
    ]
    if not rows:
        return
    if rows[0][0] in ("key", "field", "Overview", "Result"):
        yield from (NUMBER.sub("N", row[0]) for row in rows)
    else:
        yield from rows[0]


def expected() -> dict[str, str]:
    """Differences that are meant, by command."""
    lines = EXPECTED.read_text().splitlines() if EXPECTED.exists() else []
    found = [line.partition("  # ") for line in lines if line and not line.startswith("#")]
    return {command: reason for command, _, reason in found}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--admin", default="rabbitmqadmin", help="how it is called, perhaps with words before its own")
    parser.add_argument("--node", default="127.0.0.1:15672", help="HTTP of a node of Leveret")
    parser.add_argument("--rabbitmq", required=True, help="HTTP of a RabbitMQ to compare with")
    parser.add_argument("--show", action="store_true", help="what both showed, where they differ")
    given = parser.parse_args()
    admin, ours, theirs = shlex.split(given.admin), Server.at(given.node), Server.at(given.rabbitmq)
    meant, odd, count = expected(), 0, 0
    for command in commands():
        count += 1
        mine, other = run(admin, ours, command), run(admin, theirs, command)
        said, line = mine.differs_from(other), " ".join(command)
        if not said or line in meant:
            continue
        odd += 1
        print(f"{line}\n    {said}")
        if given.show:
            print(f"--- node\n{mine.shown}\n--- RabbitMQ\n{other.shown}")
    print(f"{count} commands, {odd} differ, {len(meant)} differences are meant")
    return 1 if odd else 0


if __name__ == "__main__":
    sys.exit(main())
