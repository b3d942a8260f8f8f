"""Logs for tests/bench/history.py: what a real node writes while clients work, and copies of it where much is to be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pika

from storage.names import LOG_DIRECTORY
from storage.record import HEADER_BYTES, MARK_BYTES, ROLL_BYTES, decode_mark, decode_roll, encode_mark, encode_roll
from storage.wal.log_core import LOG_ID_BYTES
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


def copied_nodes(data: Path, directory: Path, size: int) -> Path:
    """As many nodes as it takes to have so many bytes, each with copies of all files of this one's log that were begun. Its log
    has an id of its own: copies of one log are refused, as what they tell would count twice."""
    contents = {file.name: file.read_bytes() for file in sorted((data / LOG_DIRECTORY).iterdir())}
    used = {name: content for name, content in contents.items() if any(content[:HEADER_BYTES])}
    for number in range(max(1, size // sum(map(len, used.values())))):
        log = directory / f"n{number:04d}" / LOG_DIRECTORY
        log.mkdir(parents=True)
        log_id = number.to_bytes(LOG_ID_BYTES, "big")
        for name, content in used.items():
            (log / name).write_bytes(copied_file(content, log_id=log_id))
    return directory


def copied_file(content: bytes, *, log_id: bytes | None = None, number: int | None = None) -> bytes:
    """A file of the log as if its log had this id, and it this number in it: its head and all its marks say so."""
    head = decode_roll(content[HEADER_BYTES:ROLL_BYTES])
    assert head is not None, "a file of the log begins with its head"
    log_id, later = log_id or head.log_id, 0 if number is None else number - head.file
    changed = bytearray(content)
    changed[:ROLL_BYTES] = encode_roll(head._replace(log_id=log_id, file=head.file + later))
    at = content.find(head.log_id, ROLL_BYTES)
    while at >= 0:
        begin, end = at - HEADER_BYTES, at - HEADER_BYTES + MARK_BYTES
        mark = decode_mark(content[at:end])
        if mark is not None and content[begin:end] == encode_mark(mark):
            durable = mark.durable_file + later if mark.durable_file else 0
            changed[begin:end] = encode_mark(mark._replace(log_id=log_id, file=mark.file + later, durable_file=durable))
        at = content.find(head.log_id, at + 1)
    return bytes(changed)


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
