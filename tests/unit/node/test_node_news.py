"""node/membership/news.py: what nodes tell of themselves, and alarms that hold the publishers of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from broker.alarms import Alarms
from node.membership.news import NEWS_BYTES_MAX, News, OthersNews, ToldAlarm, ToldListener
from node.peers.calls import CLUSTER
from raft.core.errors import BadBytes

NOW = 1_700_000_000_000


class FakeCalls:
    """Joins two nodes: what one tells, the other hears at once."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.other: FakeCalls | None = None
        self.told: list[bytes] = []

    def serve(self, topic: int, handler: Callable[..., None]) -> None:
        assert topic == CLUSTER
        self.handler = handler

    def on_link(self, listener: Callable[[int, bool], None]) -> None:
        self.listener = listener

    def tell(self, node: int, topic: int, payload: bytes) -> bool:
        self.told.append(payload)
        if self.other is not None:
            self.other.handler(self.number, payload, None)
        return True


class Side:
    def __init__(self, number: int) -> None:
        self.calls: Any = FakeCalls(number)
        self.alarms = Alarms(lambda: None)
        self.news = OthersNews(number, self.calls, self.alarms, lambda node: f"n{node}", lambda: NOW, self._news)

    @staticmethod
    def _news(alarms: Sequence[ToldAlarm]) -> News:
        return News(
            "0.1.0",
            NOW,
            (ToldListener("amqp", "h:1", False),),
            tuple(alarms),
            stream_address="h:5552",
            stream_tls_address="h:5551",
            incarnation=9,
            catalog_entries=2,
            reads_deaths=True,
        )


def pair() -> tuple[Side, Side]:
    one, other = Side(1), Side(2)
    one.calls.other, other.calls.other = other.calls, one.calls
    one.calls.listener(2, True)
    other.calls.listener(1, True)
    return one, other


def test_what_a_node_reads_is_known_of_the_process_that_told() -> None:
    one, _ = pair()
    assert [one.news.catalog_entries(2, incarnation) for incarnation in (8, 9, 10)] == [1, 2, 1]
    assert (one.news.catalog_entries(1, 9), one.news.catalog_entries(3, 9)) == (2, 1)
    one.calls.handler(3, msgspec.json.encode({"version": "0.1.0", "started_at_ms": NOW}), None)
    assert one.news.catalog_entries(3, 0) == 1, "of an older build, which does not say"


def test_a_link_brings_news_and_changes_are_told_once() -> None:
    one, other = pair()
    found = one.news.of(2)
    assert found is not None
    assert (found.version, found.listener_facts()[0].address) == ("0.1.0", "h:1")
    assert one.news.of(1) is not None and one.news.of(3) is None
    one.news.tick()
    assert len(one.calls.told) == 1
    one.alarms.raise_alarm("disk", "low", NOW)
    one.news.tick()
    one.news.tick()
    assert len(one.calls.told) == 2
    heard = other.news.of(1)
    assert heard is not None and heard.alarm_facts()[0].reason == "low"


def test_an_alarm_holds_the_publishers_of_other_nodes_and_comes_back_to_nobody() -> None:
    one, other = pair()
    one.alarms.raise_alarm("memory", "above 1 GiB", NOW)
    one.news.tick()
    assert other.alarms.blocked_reason == "above 1 GiB (on node n1)"
    other.news.tick()
    assert len(one.alarms.raised()) == 1
    one.alarms.clear_alarm("memory")
    one.news.tick()
    assert other.alarms.blocked_reason is None


def test_the_alarm_of_a_node_that_is_gone_holds_nobody() -> None:
    one, other = pair()
    other.alarms.raise_alarm("disk", "low here", NOW)
    one.alarms.raise_alarm("memory", "above 1 GiB", NOW)
    one.news.tick()
    other.calls.listener(1, False)
    assert [alarm.kind for alarm in other.alarms.raised()] == ["disk"]


def test_an_alarm_stays_raised_when_others_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cleared and raised again, it would let publishers go for a moment, and forget since when it is there."""
    one, other = pair()
    one.alarms.raise_alarm("memory", "above 1 GiB", NOW)
    one.news.tick()
    cleared: list[str] = []
    clear = other.alarms.clear_alarm
    monkeypatch.setattr(other.alarms, "clear_alarm", lambda kind: (cleared.append(kind), clear(kind)))
    one.alarms.raise_alarm("disk", "low", NOW)
    one.news.tick()
    assert (cleared, len(other.alarms.raised())) == ([], 2)
    one.alarms.clear_alarm("disk")
    one.news.tick()
    assert cleared == ["disk@1"]


def test_more_than_news_may_have_or_a_question_ends_the_link() -> None:
    one, _ = pair()
    long = msgspec.json.encode(News("0.1.0" + "x" * NEWS_BYTES_MAX, NOW))
    with pytest.raises(BadBytes, match="no news of it"):
        one.calls.handler(2, long, None)
    with pytest.raises(BadBytes, match="no news of it"):
        one.calls.handler(2, msgspec.json.encode(News("0.1.0", NOW)), lambda answer: None)


@pytest.mark.parametrize("payload", [b"{", b"[]", b"\xff", b"x" * 70_000])
def test_what_is_no_news_ends_the_link(payload: bytes) -> None:
    one, _ = pair()
    with pytest.raises(BadBytes, match="node 2"):
        one.calls.handler(2, payload, None)


def test_news_of_a_later_version_with_more_in_them_are_read() -> None:
    one, _ = pair()
    later = {"version": "9.0.0", "started_at_ms": 5, "colour": "green"}
    one.calls.handler(2, msgspec.json.encode(later), None)
    found = one.news.of(2)
    assert found is not None and found.version == "9.0.0"


def test_a_death_is_told_to_a_node_that_has_said_over_this_link_that_it_reads_it() -> None:
    """Its process before that may have been of a newer build."""
    one, _ = pair()
    assert (one.news.reads_deaths(2), one.news.reads_deaths(3)) == (True, False)
    one.calls.listener(2, False)
    one.calls.listener(2, True)
    assert not one.news.reads_deaths(2)
    one.calls.handler(2, msgspec.json.encode({"version": "0.1.0", "started_at_ms": NOW}), None)
    assert not one.news.reads_deaths(2), "of an older build, which does not say"


def test_stream_clients_are_sent_to_nodes_that_can_be_reached() -> None:
    one, _ = pair()
    assert one.news.stream_address(1) == one.news.stream_address(2) == ("h", 5552)
    assert one.news.stream_address(1, tls=True) == one.news.stream_address(2, tls=True) == ("h", 5551)
    assert one.news.stream_address(3) is None
    one.calls.listener(2, False)
    assert one.news.stream_address(2) is None
    assert one.news.stream_address(1) == ("h", 5552), "itself"


@pytest.mark.parametrize("address", ["", "h"])
def test_a_node_without_an_address_for_stream_clients(address: str) -> None:
    one, _ = pair()
    told = msgspec.json.encode(News("0.1.0", NOW, stream_address=address))
    if address:
        with pytest.raises(BadBytes):
            one.calls.handler(2, told, None)
    else:
        one.calls.handler(2, told, None)
        assert one.news.stream_address(2) is None
