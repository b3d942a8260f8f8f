"""Writes the history of a run down as it happens: in memory for the judge, as JSON lines for whoever looks for the cause."""

from __future__ import annotations

import json
import sys
import time
import zlib
from dataclasses import asdict
from pathlib import Path

from tests.histories.names import NameCall
from tests.histories.records import (
    Acknowledged,
    Attempted,
    Confirmed,
    Delivered,
    Drained,
    History,
    Left,
    Record,
    Refused,
    Rejected,
    Requeued,
    Settled,
)

PAYLOAD_SIZES = (20, 100, 100, 100, 900, 5_000, 20_000)


def payload(publisher: str, number: int) -> bytes:
    """Says who sent it, with a checksum of that, in one of several sizes."""
    sender = f"{publisher}:{number}:".encode()
    return b"%b%08x:" % (sender, zlib.crc32(sender)) + b"." * (
        PAYLOAD_SIZES[number % len(PAYLOAD_SIZES)] - len(sender) - 9
    )


class Altered(Exception):
    """A message came that nobody sent like this."""


def identity(body: bytes) -> tuple[str, int]:
    """Raises Altered when any byte is another than the publisher's."""
    parts = body.split(b":", 2)
    if len(parts) == 3 and parts[1].isdigit():
        publisher, number = parts[0].decode(errors="replace"), int(parts[1])
        if body == payload(publisher, number):
            return publisher, number
    raise Altered(f"a body of {len(body)} bytes that nobody published: {body[:60]!r}")


class Recorder:
    def __init__(self, directory: Path) -> None:
        self.history: History = []
        self.name_calls: list[NameCall] = []
        self.attempted = self.confirmed = self.delivered = 0
        self.told: list[str] = []  # what the runner did, with its moment
        self._began = time.monotonic()
        self._directory = directory

    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._began

    def tell(self, what: str) -> None:
        self.told.append(f"{self.now():8.3f} {what}")
        print(self.told[-1], file=sys.stderr)

    def attempt(self, publisher: str, number: int, priority: int = 0) -> None:
        self.attempted += 1
        self.history.append(Attempted(self.now(), publisher, number, priority))

    def confirm(self, publisher: str, number: int) -> None:
        self.confirmed += 1
        self.history.append(Confirmed(self.now(), publisher, number))

    def refuse(self, publisher: str, number: int) -> None:
        self.history.append(Refused(self.now(), publisher, number))

    def deliver(self, queue: str, consumer: str, body: bytes, redelivered: bool, headers: dict[str, object]) -> int:
        """The number of this delivery."""
        self.delivered += 1
        try:
            publisher, number = identity(body)
        except Altered as altered:
            publisher, number = str(altered), 0  # the judge finds that nobody sent it
        self.history.append(
            Delivered(
                self.now(),
                self.delivered,
                queue,
                consumer,
                publisher,
                number,
                redelivered,
                _count(headers, "x-delivery-count"),
                _count(headers, "x-acquired-count"),
                _deaths(headers),
            )
        )
        return self.delivered

    def acknowledge(self, delivery: int) -> None:
        self.history.append(Acknowledged(self.now(), delivery))

    def requeue(self, delivery: int, is_failure: bool) -> None:
        self.history.append(Requeued(self.now(), delivery, is_failure))

    def reject(self, delivery: int) -> None:
        self.history.append(Rejected(self.now(), delivery))

    def settle(self, delivery: int) -> None:
        self.history.append(Settled(self.now(), delivery))

    def leave(self, queue: str, consumer: str, window: int) -> None:
        self.history.append(Left(self.now(), queue, consumer, window))

    def drain(self, queue: str, where: str, left: int) -> None:
        self.history.append(Drained(self.now(), queue, where, left))

    def save(self) -> None:
        """history.jsonl, names.jsonl and told.txt in its directory."""
        with (self._directory / "history.jsonl").open("w") as file:
            file.writelines(json.dumps(_line(record)) + "\n" for record in self.history)
        with (self._directory / "names.jsonl").open("w") as file:
            for call in self.name_calls:
                line = asdict(call) | {"verb": call.verb.value, "answer": call.answer and call.answer.value}
                file.write(json.dumps(line) + "\n")
        (self._directory / "told.txt").write_text("\n".join(self.told) + "\n")


def _line(record: Record) -> dict[str, object]:
    return {"what": type(record).__name__} | asdict(record)


def _count(headers: dict[str, object], name: str) -> int:
    value = headers.get(name, 0)
    return value if isinstance(value, int) else 0


def _deaths(headers: dict[str, object]) -> tuple[tuple[str, str], ...]:
    deaths = headers.get("x-death", [])
    assert isinstance(deaths, list), f"x-death is {deaths!r}"
    return tuple((str(death.get("queue")), str(death.get("reason"))) for death in deaths)
