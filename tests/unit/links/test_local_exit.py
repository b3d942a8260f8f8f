"""links/federation/local_exit.py: what the session of a link in this broker takes, and what its link hears of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.errors import ResourceExhausted
from broker.messages.message import Run
from links.amqp.events import Delivered
from links.federation.federation_link import DownstreamRefused
from links.federation.local_exit import LocalExit
from native.content import encode
from tests.unit.broker.broker_world import World
from tests.unit.broker.later_turns import LaterTurns
from wire.amqp.tables import encode_properties


class Heard:
    """What a link hears of its end here."""

    def __init__(self, *, trusts: bool = False) -> None:
        self.upstream = SimpleNamespace(trust_user_id=trusts)
        self.told: list[Any] = []

    def confirmed(self, first: int, last: int, *, multiple: bool, ok: bool) -> None:
        self.told.append(("confirmed", first, last, ok))

    def blocked(self, reason: str | None) -> None:
        self.told.append(("blocked", reason))

    def writable(self, writable: bool) -> None:
        self.told.append(("writable", writable))

    def downstream_ended(self, reason: str) -> None:
        self.told.append(("ended", reason))


class Bench:
    """With queue `q`, and `a` to `h` bound to the fanout exchange `wide`, which get it two in each step."""

    def __init__(self, *, trusts: bool = False) -> None:
        self.world, self.link = World(), Heard(trusts=trusts)
        self.world.broker.queues_per_step = 2
        client = self.world.client()
        client.declare("q")
        client.declare_exchange("wide", "fanout")
        for name in "abcdefgh":
            client.declare(name)
            client.bind(name, "wide", "")
        self.exit = self.open()

    def open(self, vhost: str = "/") -> LocalExit:
        link: Any = self.link
        return LocalExit(link, self.world.broker, vhost, "link-1", "link", lambda: self.world.now)

    def publish(self, exchange: bytes = b"", key: bytes = b"q", user_id: bytes | None = None) -> bool:
        content = encode(encode_properties({}), b"m")
        run = Delivered(1, b"", 1, False, exchange, key, 1, content, 1, True, 0, None, user_id, 0)
        return self.exit.publish(exchange, key, content, 1, run, 0)


def test_what_it_takes_is_confirmed_to_its_link() -> None:
    bench = Bench()
    assert bench.publish()
    assert bench.link.told == []
    bench.world.end_turn()
    assert (bench.link.told, bench.world.ready("q")) == ([("confirmed", 1, 1, True)], 1)


def test_a_broker_that_takes_nothing_any_more_ends_it() -> None:
    """Else the link would wait for a confirm that never comes."""
    bench = Bench()
    assert bench.publish(b"gone"), "that it may be published: another try will tell"
    assert bench.link.told == [("ended", "no exchange 'gone' in vhost '/'")]


def test_it_is_not_writable_while_very_many_queues_get_a_message() -> None:
    bench = Bench()
    later = LaterTurns(bench.world, steps_max=1)
    bench.publish(b"wide", b"")
    assert bench.link.told == [("writable", False)]
    bench.publish(b"wide", b"")
    assert bench.link.told == [("writable", False)], "it waits behind the same"
    later.all()
    assert bench.link.told == [("writable", False), ("writable", True)]
    bench.world.end_turn()
    assert all(bench.world.ready(name) == 2 for name in "abcdefgh")
    bench.publish(b"wide", b"")
    assert bench.link.told[-1] == ("writable", False)


@pytest.mark.parametrize(
    ("trusts", "given", "kept"), [(True, b"ada", "ada"), (False, b"ada", None), (True, None, None), (False, None, None)]
)
def test_a_user_id_is_believed_of_upstreams_that_are_trusted(
    monkeypatch: pytest.MonkeyPatch, trusts: bool, given: bytes | None, kept: str | None
) -> None:
    bench, published = Bench(trusts=trusts), list[Run]()
    monkeypatch.setattr(bench.exit._session.publisher, "publish", lambda run, now: published.append(run))
    bench.publish(user_id=given)
    assert [run.user_id for run in published] == [kept]


def test_an_alarm_is_told_to_a_link_that_publishes_and_so_is_its_end() -> None:
    bench = Bench()
    bench.world.broker.alarms.raise_alarm("memory", "low on memory", bench.world.now)
    assert bench.link.told == []
    bench.publish()
    assert bench.link.told == [("blocked", "low on memory")]
    bench.world.broker.alarms.clear_alarm("memory")
    assert bench.link.told[-1] == ("blocked", None)


def test_where_there_is_no_room_for_it_nothing_is_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.exit.close()
    before = len(list(bench.world.broker.connections()))

    def refuse(*_: object) -> None:
        raise ResourceExhausted("too many channels")

    monkeypatch.setattr(bench.world.broker, "open_session", refuse)
    with pytest.raises(DownstreamRefused, match="too many channels"):
        bench.open()
    assert len(list(bench.world.broker.connections())) == before
