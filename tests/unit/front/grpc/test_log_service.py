"""The log over gRPC: who may have it, and that it comes as the node gives it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any

import pytest

import leveret
from broker.catalog.commands.catalog_commands import PutUser
from broker.errors import ResourceExhausted
from broker.records import UserRecord
from front.grpc import log_service
from front.grpc.log_service import LISTED_AT_ONCE, LogFileView, LogPart, LogSource, LogView, LogWhole, WantedFile
from leveret import errors, node_log, records
from leveret.node_log import WantedLogFile
from tests.unit.front.grpc import fakes
from tests.unit.front.grpc.fakes import Running, bounded, running

SOURCE = LogSource("n1", b"\xaa" * 16)
FILES = [LogFileView(f"log/{number:020d}.log", 100 + number, 5, 6, number == 2) for number in (1, 2)]
GONE = log_service.LogUnread("log/x", "the node has deleted it", gone=True)


class FakeLog:
    """Gives what the test says; None as a part is an error."""

    def __init__(self) -> None:
        self.view = LogView(SOURCE, 5, [(3, 4)], FILES)
        self.given: list[LogPart | None] = []
        self.asked: list[Any] = []
        self.readers = 0

    async def listing(self) -> LogView:
        return self.view

    async def parts(
        self, wanted: Sequence[WantedFile], *, without_bodies: bool, bytes_per_s_max: int
    ) -> AsyncGenerator[LogPart, None]:
        self.asked.append((list(wanted), without_bodies, bytes_per_s_max))
        self.readers += 1
        try:
            for part in self.given:
                if part is None:
                    raise ResourceExhausted("4 exports are under way")
                yield part
        finally:
            self.readers -= 1

    async def rows(self, *, from_us: int, queue: str, follow: bool) -> AsyncGenerator[Sequence[str], None]:
        self.asked.append((from_us, queue, follow))
        yield ['{"kind": "MARK"}', '{"kind": "ROLL"}']
        yield ['{"kind": "NAME"}']


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> FakeLog:
    made, admin_ports = FakeLog(), fakes.admin_ports
    monkeypatch.setattr(fakes, "admin_ports", lambda broker: replace(admin_ports(broker), log=made))
    return made


def with_node(work: Any) -> None:
    async def run() -> None:
        async with running() as server, leveret.connect(server.target) as node:
            await work(server, node)

    bounded(run())


def test_a_listing_says_whose_log_it_is_and_what_is_missing(log: FakeLog) -> None:
    async def work(_: Running, node: leveret.Node) -> None:
        listing = await node.log.listing()
        assert (listing.node, listing.log_id, listing.first_us) == ("n1", "aa" * 16, 5)
        assert listing.gaps == (records.LogGap(3, 4),)
        assert [(one.name, one.bytes, one.open) for one in listing.files] == [
            (one.name, one.size, one.open) for one in FILES
        ]

    with_node(work)


def test_a_long_listing_comes_in_parts_and_in_order(log: FakeLog) -> None:
    names = [f"log/{number:020d}.log" for number in range(2 * LISTED_AT_ONCE + 1)]
    log.view = LogView(SOURCE, 0, [], [LogFileView(name, 1, 0, 0, False) for name in names])

    async def work(_: Running, node: leveret.Node) -> None:
        assert [one.name for one in (await node.log.listing()).files] == names

    with_node(work)


def test_files_come_as_the_node_gives_them(log: FakeLog) -> None:
    log.given = [log_service.LogBegin(FILES[0].name, 7), b"abc", b"def", LogWhole(13, b"\x01" * 32, open=True), GONE]

    async def work(_: Running, node: leveret.Node) -> None:
        wanted = WantedLogFile(FILES[0].name, 7, b"\x02" * 32)
        parts = [part async for part in node.log.export([wanted], without_bodies=True, bytes_per_s_max=1000)]
        assert parts == [
            node_log.LogBegin(FILES[0].name, 7),
            b"abc",
            b"def",
            node_log.LogEnd(13, b"\x01" * 32, open=True),
            node_log.LogUnread(*GONE),
        ]
        assert log.asked == [([WantedFile(FILES[0].name, 7, b"\x02" * 32)], True, 1000)]

    with_node(work)


def test_an_error_in_the_middle_ends_the_call_with_its_text(log: FakeLog) -> None:
    log.given = [log_service.LogBegin(FILES[0].name, 0), b"abc", None]

    async def work(_: Running, node: leveret.Node) -> None:
        seen = []
        with pytest.raises(errors.ResourceExhausted, match="4 exports are under way"):
            async for part in node.log.export([WantedLogFile(FILES[0].name)]):
                seen.append(part)
        assert len(seen) == 2

    with_node(work)


def test_a_client_that_leaves_in_the_middle_is_no_reader_any_more(log: FakeLog) -> None:
    log.given = [b"x" * 100_000] * 1_000  # more than is under way in a connection

    async def work(_: Running, node: leveret.Node) -> None:
        parts = node.log.export([WantedLogFile(FILES[0].name)])
        await anext(parts)
        assert log.readers == 1
        await parts.aclose()
        await fakes.until(lambda: log.readers == 0)

    with_node(work)


def test_records_come_as_objects(log: FakeLog) -> None:
    async def work(_: Running, node: leveret.Node) -> None:
        rows = [row async for row in node.log.rows(from_us=9, queue="q", follow=True)]
        assert [row["kind"] for row in rows] == ["MARK", "ROLL", "NAME"]
        assert log.asked == [(9, "q", True)]

    with_node(work)


@pytest.mark.parametrize("tag", ["", "management", "policymaker", "monitoring"])
def test_the_log_is_for_administrators(log: FakeLog, tag: str) -> None:
    async def work(server: Running, _: leveret.Node) -> None:
        server.broker.catalog.apply(PutUser(UserRecord("caller", "hash of caller", (tag,) if tag else ())))
        async with leveret.connect(server.target, user="caller", password="caller") as node:
            with pytest.raises(errors.AccessRefused, match="needs the tag 'administrator'"):
                await node.log.listing()
            for call in (node.log.export([]), node.log.rows()):
                with pytest.raises(errors.AccessRefused, match="needs the tag 'administrator'"):
                    await anext(call)
        assert log.asked == []

    with_node(work)


def test_nobody_gets_it_without_a_password(log: FakeLog) -> None:
    async def work(server: Running, _: leveret.Node) -> None:
        stranger = leveret.connect(server.target, user="guest", password="wrong")
        with pytest.raises(errors.Unauthenticated):
            async with stranger as node:
                await anext(node.log.rows())

    with_node(work)


def test_a_node_without_a_log_says_so() -> None:
    async def work(_: Running, node: leveret.Node) -> None:
        with pytest.raises(errors.NotSupported, match="no log"):
            await node.log.listing()

    with_node(work)
