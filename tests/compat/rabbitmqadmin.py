"""rabbitmqadmin 2.29, a strict client of the management API, says the same commands to a node and to a genuine RabbitMQ.

It drops a whole answer for one value of a wrong type, so what it shows is a check of every field that it knows. Every command
of its help is said. Of each is compared all that it showed, but for figures and names of nodes, or the status that it was
refused with.
Differences are printed; those that are meant are in expected/rabbitmqadmin.txt with their reasons (docs/amqp-differences.md).

    make test-rabbitmqadmin RABBITMQ=127.0.0.1:25672        # with a node of its own
    python -m tests.compat.rabbitmqadmin --admin rabbitmqadmin --node 127.0.0.1:15672 --rabbitmq 127.0.0.1:25672

Both brokers have the user guest with the password guest, and what the commands make is taken away again by others of them.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import difflib
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

import pika

from tests.compat.admin_help import never_said
from tests.running_node import running_node

HERE = Path(__file__).parent
COMMANDS = HERE / "admin_commands.txt"
EXPECTED = HERE / "expected" / "rabbitmqadmin.txt"
COMMAND_S_MAX = 60
USAGE = "Usage: "  # a command that rabbitmqadmin does not take
FIGURE = re.compile(r"-?\d+(\.\d+)?( (bytes|GiB|MiB|KiB|GB|MB|KB))?")
STATUS = re.compile(r"Client error response: (\d{3})|Resource not found \((404)\)|Server error response: (\d{3})")
QUERY = re.compile(r"(?<=\?)[\w./]+=[\w./&=]+")  # of a URI: rabbitmqadmin's order is another one each time
RANDOM = re.compile(r"[\w+/$,=-]{40,}|\S+~\S+")  # hashes, and properties keys with one
IN_ANY_ORDER = ("memory_breakdown", "parameters list_all")  # by size, and as RabbitMQ's store has them
FROM_INPUT = " < "  # what follows is read by the command
WATCHED = "watched"  # a queue that is there all the time
SHOWN_MAX = 60  # lines of a difference
LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()


@dataclass(frozen=True)
class Server:
    """A broker that is asked."""

    host: str
    port: int
    node: str  # its name
    amqp: str  # HOST:PORT

    @classmethod
    def at(cls, address: str) -> Server:
        host, _, port = address.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=COMMAND_S_MAX)
        connection.request("GET", "/api/overview", headers={"Authorization": LOGIN})
        overview = json.loads(connection.getresponse().read())
        connection.close()
        listeners = (one for one in overview["listeners"] if one["protocol"] == "amqp")
        return cls(host, int(port), overview["node"], f"{host}:{next(listeners)['port']}")

    def words(self, command: str) -> list[str]:
        return [self._named(word) for word in _words(command)]

    def _named(self, word: str) -> str:
        return word.replace("NODE", self.node).replace("AMQP", self.amqp)

    def unnamed(self, shown: str) -> str:
        """Without what is another text at each server."""
        return shown.replace(self.node, "NODE").replace(self.amqp, "AMQP").replace(f"{self.host}:{self.port}", "HTTP")


@dataclass(frozen=True)
class Outcome:
    """What a command came to."""

    code: int  # with which it ended
    shown: str  # as it was
    compared: tuple[str, ...]  # lines of what it printed, or statuses that it was refused with

    def differs_from(self, other: Outcome) -> str:
        """In words; empty: not at all."""
        if self.code != other.code:
            return f"{_ended(self)} here and {_ended(other)} there"
        lines = difflib.unified_diff(other.compared, self.compared, "RabbitMQ", "node", n=0, lineterm="")
        return "\n    ".join(list(lines)[2 : 2 + SHOWN_MAX])


def _ended(outcome: Outcome) -> str:
    return f"refused ({outcome.code}: {', '.join(outcome.compared)})" if outcome.code else "done"


def commands() -> Iterator[str]:
    for line in COMMANDS.read_text().splitlines():
        if line and not line.startswith("#"):
            yield line


def _words(line: str) -> list[str]:
    """JSON is one word, with its quotes."""
    found = re.findall(r"\{.*\}|\"[^\"]*\"|\S+", line)
    return [word[1:-1] if word.startswith('"') else word for word in found]


def run(admin: Sequence[str], server: Server, line: str) -> Outcome:
    command, _, read = line.partition(FROM_INPUT)
    address = {"RABBITMQADMIN_TARGET_HOST": server.host, "RABBITMQADMIN_TARGET_PORT": str(server.port)}
    done = subprocess.run(
        [*admin, "--verbose", *server.words(command)],
        input=read,
        capture_output=True,
        text=True,
        timeout=COMMAND_S_MAX,
        check=False,
        env={**os.environ, **address, "RABBITMQADMIN_TABLE_STYLE": "markdown"},
    )
    assert USAGE not in done.stderr, f"{command}: {done.stderr}"
    statuses = ("".join(found) for found in STATUS.findall(done.stderr))
    compared = statuses if done.returncode else compared_lines(server.unnamed(done.stdout))
    if any(words in command for words in IN_ANY_ORDER):
        compared = sorted(compared)
    return Outcome(done.returncode, done.stdout + done.stderr, tuple(compared))


def compared_lines(shown: str) -> list[str]:
    """Without figures and what is random, and without the width of columns."""
    if shown.startswith("{"):
        return json.dumps(_in_order(json.loads(shown)), indent=1).splitlines()
    rows = [line.split("|") for line in shown.splitlines()]
    return ["|".join(_plain(cell) for cell in row) for row in rows if any(cell.strip("-") for cell in row)]


def _plain(text: str) -> str:
    in_order = QUERY.sub(lambda found: "&".join(sorted(found[0].split("&"))), text.strip())
    return FIGURE.sub("N", RANDOM.sub("RANDOM", in_order))


def _in_order(value: object) -> object:
    """JSON whose lists may come in any order, as those of definitions."""
    if isinstance(value, dict):
        return {key: _in_order(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return sorted((_in_order(one) for one in value), key=json.dumps)
    return _plain(value) if isinstance(value, str) else value


def expected() -> dict[str, str]:
    """Differences that are meant, by command."""
    lines = EXPECTED.read_text().splitlines() if EXPECTED.exists() else []
    found = [line.partition("  # ") for line in lines if line and not line.startswith("#")]
    return {command: reason for command, _, reason in found}


@contextlib.contextmanager
def consuming(server: Server) -> Iterator[None]:
    """A client with a consumer, for the lists of them."""
    host, _, port = server.amqp.rpartition(":")
    client = pika.BlockingConnection(pika.ConnectionParameters(host, int(port), heartbeat=0))
    channel = client.channel()
    channel.queue_declare(WATCHED, durable=True, arguments={"x-queue-type": "quorum"})
    channel.basic_consume(WATCHED, lambda *_: None, consumer_tag="watched")
    try:
        yield
    finally:
        client.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--admin", default="rabbitmqadmin", help="how it is called, perhaps with words before its own")
    parser.add_argument("--node", default="", help="HTTP of a node of Leveret; one is started where none is named")
    parser.add_argument("--rabbitmq", required=True, help="HTTP of a RabbitMQ to compare with")
    parser.add_argument("--show", action="store_true", help="what both showed, where they differ")
    given = parser.parse_args()
    if given.node:
        return compared(given, Server.at(given.node))
    with running_node() as node:
        return compared(given, Server.at("{}:{}".format(*node.http)))


def compared(given: argparse.Namespace, ours: Server) -> int:
    admin, theirs = shlex.split(given.admin), Server.at(given.rabbitmq)
    said, meant, odd = list(commands()), expected(), 0
    with consuming(ours), consuming(theirs):
        for command in said:
            mine, other = run(admin, ours, command), run(admin, theirs, command)
            difference = mine.differs_from(other)
            if not difference or command in meant:
                continue
            odd += 1
            print(f"{command}\n    {difference}", flush=True)
            if given.show:
                print(f"--- node\n{mine.shown}\n--- RabbitMQ\n{other.shown}")
    left_out = never_said(admin, said)
    for command in left_out:
        print(f"{command}\n    is in its help, and was not said")
    print(f"{len(said)} commands, {odd} differ, {len(meant)} are meant to, {len(left_out)} of the help were not said")
    return 1 if odd or left_out else 0


if __name__ == "__main__":
    sys.exit(main())
