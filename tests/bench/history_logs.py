"""Logs for tests/bench/history.py: what a real node writes while clients work, and links to it where much is to be read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pika

from storage.names import LOG_DIRECTORY
from tests.bench.workloads import Address, consumer, declare, publisher, timed
from tests.running_node import running_node

CONFIG = "[archive]\nhours = 24\n"
BATCHED_QUEUES = 8
LONE_QUEUES = 32
AT_ONCE = 2  # queues that clients work on
ASKED = {"classic": "asked.classic", "quorum": "asked.quorum"}
MARKED = "the-one-that-is-looked-for"


def logs_of_runs(directory: Path, messages: int) -> Path:
    """The data of a node that took so many messages from publishers with 1,000 unconfirmed, half of them into quorum queues."""

    def work(address: Address) -> None:
        for kind in ("classic", "quorum"):
            _runs(address, kind, messages // 2)

    return _logs_of(directory, work)


def logs_of_lone_messages(directory: Path, messages: int) -> Path:
    """The same, of a node whose quorum queues had one message at a time, each in an entry of its own."""
    return _logs_of(directory, lambda address: _lone(address, messages))


def logs_of_one_message(directory: Path) -> Path:
    """The same, of one message with the id MARKED."""
    return _logs_of(directory, _one)


def logs_of_a_day(directory: Path, others: int, messages: int) -> Path:
    """The same, of a node with as many queues, and then one of each kind that took so many messages and gave half of them
    away."""

    def work(address: Address) -> None:
        for kind in ("classic", "quorum"):
            _runs(address, kind, others // 2)
        for kind, name in ASKED.items():
            _asked(address, kind, name, messages)

    return _logs_of(directory, work)


def linked_nodes(data: Path, directory: Path, size: int) -> Path:
    """As many nodes as it takes to have so many bytes, each with links to all files of this one's log that were begun."""
    files = sorted((data / LOG_DIRECTORY).iterdir())
    used = [file for file in files if any(file.read_bytes()[:16])]
    nodes = max(1, size // sum(file.stat().st_size for file in used))
    for number in range(nodes):
        log = directory / f"n{number:04d}" / LOG_DIRECTORY
        log.mkdir(parents=True)
        for file in used:
            os.link(file, log / file.name)
    return directory


def _logs_of(directory: Path, work: Callable[[Address], object]) -> Path:
    directory.mkdir(parents=True)
    config = directory / "leveret.toml"
    config.write_text(CONFIG)
    with running_node("--config", str(config), data_dir=directory / "data") as node:
        work(node.amqp)
        if node.stop():
            raise RuntimeError(f"the node ended with an error: {node.log.read_text()[-2_000:]}")
    return directory / "data"


def _runs(address: Address, kind: str, messages: int) -> None:
    names = [f"{kind}.{number}" for number in range(BATCHED_QUEUES)]
    declare(address, names, kind=kind)
    each = messages // BATCHED_QUEUES
    for at in range(0, BATCHED_QUEUES, AT_ONCE):
        those = names[at : at + AT_ONCE]
        publishers = [(publisher, (address, "", [name], each, 1_000, 100, True)) for name in those]
        timed([*publishers, *((consumer, (address, [name], each, 1_000)) for name in those)])


def _asked(address: Address, kind: str, name: str, messages: int) -> None:
    declare(address, [name], kind=kind)
    half = (publisher, (address, "", [name], messages // 2, 1_000, 100, True))
    timed([half])
    timed([(consumer, (address, [name], messages // 2, 1_000))])
    timed([half])


def _lone(address: Address, messages: int) -> None:
    names = [f"lone.{number}" for number in range(LONE_QUEUES)]
    declare(address, names, kind="quorum")
    timed(
        [
            (publisher, (address, "", names, messages, LONE_QUEUES, 100, True)),
            (consumer, (address, names, messages, LONE_QUEUES)),
        ]
    )


def _one(address: Address) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(f"amqp://guest:guest@{address[0]}:{address[1]}/"))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("marked", durable=True)
    channel.basic_publish("", "marked", b"x", pika.BasicProperties(delivery_mode=2, message_id=MARKED))
    connection.close()
