"""links/federation/federation_link.py over ends and a clock that a test holds: when what is acknowledged and given back."""

from __future__ import annotations

from typing import Any

import pytest

from broker.messages.message import LOOK_CC, LOOK_HEADERS
from links.amqp.conversation import Steps
from links.amqp.events import Delivered
from links.federation.federation_link import IN_FLIGHT_BYTES_MAX, LEAVE_S, DownstreamRefused, FederationLink
from links.federation.federation_status import LinkState
from links.federation.hops import Stamp
from links.federation.upstream import Upstream
from native.content import encode, messages
from tests.unit.links.hand_clock import HandClock
from wire.amqp.tables import encode_properties

DROPPED = encode_properties({"headers": {"drop": 1}})
PLAIN = encode_properties({})


class DroppingStamp(Stamp):
    """Drops what asks for it."""

    look_kept = ~LOOK_CC

    def _mark(self, headers: dict[str, bytes], run: object) -> bool:
        return "drop" not in headers


class HeardEnd:
    """Either end: writes down what the link asks of it."""

    uri = "amqp://there"
    cluster = "there"

    def __init__(self, name: str, said: list[Any]) -> None:
        self.name = name
        self._said = said
        self.refuses = b"nothing"
        self.upon_publish = lambda: None
        self.looks: list[int] = []

    def ask(self, steps: Steps) -> None:
        self._said.append("ask")

    def acknowledge(self, first: int, last: int, *, multiple: bool) -> None:
        self._said.append(("ack", first, last, multiple))

    def give_back(self, first: int, last: int) -> None:
        self._said.append(("nack", first, last))

    def pause(self) -> None:
        self._said.append("pause")

    def resume(self) -> None:
        self._said.append("resume")

    def publish(
        self, exchange: bytes, routing_key: bytes, content: bytes, count: int, run: Delivered, look: int
    ) -> bool:
        bodies = [body for _, body in messages(content, 0, count)]
        if self.refuses in bodies:
            return False
        self.looks.append(look)
        self._said.append(b" ".join(bodies))
        self.upon_publish()
        return True

    def close(self) -> None:
        self._said.append(f"close {self.name}")


class PlainLink(FederationLink):
    def begin_steps(self) -> Steps:
        yield 1, "channel.open", {}

    def leave_steps(self) -> Steps | None:
        return self.begin_steps()

    def new_stamp(self, end: object) -> Stamp:
        return DroppingStamp(trusts_user_id=True)

    def target_of(self, run: Delivered) -> tuple[bytes, bytes]:
        return b"x", run.routing_key


class LinkBench:
    """A link that is running. Fulfils LinkEnds."""

    def __init__(self, ack_mode: str = "on-confirm", *, is_ready: bool = True, reconnect_delay_s: float = 2.0) -> None:
        self.said: list[Any] = []
        self.clock = HandClock()
        upstream = Upstream(
            "up", ("amqp://there",), None, None, "tag", 1000, reconnect_delay_s, ack_mode, trust_user_id=False, max_hops=1,
            expires_ms=None, message_ttl_ms=None, queue_type="classic", cleans_up=True,
        )  # fmt: skip
        self.link = PlainLink(upstream, self, self.clock, lambda: 0.5)
        self.link.start()
        if is_ready:
            self.link.upstream_ready(None)

    def open_upstream(self, link: FederationLink, steps: Steps) -> HeardEnd:
        self.there = HeardEnd("there", self.said)
        return self.there

    def open_downstream(self, link: FederationLink) -> HeardEnd:
        self.here = HeardEnd("here", self.said)
        return self.here

    def deliver(self, first: int, *bodies: bytes, look: int = 0) -> None:
        """A message whose body is `drop` goes no further."""
        content = b"".join(encode(DROPPED if body == b"drop" else PLAIN, body) for body in bodies)
        size = sum(map(len, bodies))
        self.link.delivered(
            Delivered(1, b"", first, False, b"", b"k", len(bodies), content, size, False, 0, None, None, look)
        )

    def confirm(self, first: int, last: int | None = None, *, multiple: bool = False, ok: bool = True) -> None:
        self.link.confirmed(first, first if last is None else last, multiple=multiple, ok=ok)

    def heard(self) -> list[Any]:
        said = list(self.said)
        self.said.clear()
        return said


def test_a_message_is_acknowledged_when_it_was_confirmed_here_and_not_before() -> None:
    bench = LinkBench()
    bench.deliver(1, b"a", b"b")
    bench.deliver(3, b"c")
    assert bench.heard() == [b"a b", b"c"]
    bench.confirm(2)
    assert bench.heard() == [("ack", 2, 2, False)]
    bench.confirm(3, multiple=True)
    assert bench.heard() == [("ack", 1, 1, True), ("ack", 3, 3, True)]
    assert (bench.link.status().passed_on, bench.link.status().unconfirmed) == (3, 0)


def test_what_counts_as_taken_when_it_was_published_is_acknowledged_then_and_not_again() -> None:
    bench = LinkBench("on-publish")
    bench.deliver(1, b"a", b"b")
    assert bench.heard() == [b"a b", ("ack", 1, 2, True)]
    bench.confirm(1)
    bench.confirm(2, ok=False)
    bench.clock.advance(10)
    assert bench.heard() == []


def test_what_is_delivered_without_acknowledgements_gets_none() -> None:
    bench = LinkBench("no-ack")
    bench.deliver(1, b"a", b"drop")
    bench.confirm(1)
    assert bench.heard() == [b"a"]


def test_what_is_refused_here_goes_back_after_a_pause_and_is_acknowledged_never() -> None:
    bench = LinkBench()
    bench.deliver(1, b"a", b"b", b"c")
    bench.confirm(2, ok=False)
    bench.clock.advance(1.9)
    assert bench.heard() == [b"a b c"]
    bench.clock.advance(0.2)
    assert bench.heard() == [("nack", 2, 2)]
    bench.confirm(3, multiple=True)
    assert bench.heard() == [("ack", 1, 1, True), ("ack", 3, 3, True)]
    assert (bench.link.status().passed_on, bench.link.status().refused) == (2, 1)


def test_what_was_to_go_back_is_the_upstreams_again_when_its_connection_ends() -> None:
    """Its tag is another message's on the next connection."""
    bench = LinkBench()
    bench.deliver(1, b"a")
    bench.confirm(1, ok=False)
    bench.link.restart()
    bench.link.upstream_ready(None)
    bench.deliver(1, b"another")
    bench.heard()
    bench.clock.advance(10)
    assert bench.heard() == []


def test_what_is_dropped_is_acknowledged_alone_while_what_came_before_waits_for_its_confirm() -> None:
    bench = LinkBench()
    bench.deliver(1, b"a", b"drop", b"drop", b"d")
    assert bench.heard() == [b"a", ("ack", 2, 3, False), b"d"]
    bench.confirm(2, multiple=True)
    assert bench.heard() == [("ack", 1, 1, True), ("ack", 4, 4, True)]
    assert (bench.link.status().passed_on, bench.link.status().dropped) == (2, 2)


def test_one_that_may_not_be_published_here_is_dropped_and_its_neighbours_are_not() -> None:
    bench = LinkBench()
    bench.here.refuses = b"b"
    bench.deliver(1, b"a", b"b", b"c")
    assert bench.heard() == [b"a", ("ack", 2, 2, False), b"c"]
    bench.confirm(2)
    assert bench.heard() == [("ack", 3, 3, False)]


def test_nothing_is_published_while_the_broker_here_takes_nothing() -> None:
    bench = LinkBench()
    for stop, go_on in (
        (lambda: bench.link.blocked("low on memory"), lambda: bench.link.blocked(None)),
        (lambda: bench.link.writable(False), lambda: bench.link.writable(True)),
    ):
        stop()
        bench.deliver(1, b"a")
        assert bench.heard() == []
        go_on()
        assert bench.heard() == [b"a"]


def test_what_comes_before_the_link_is_ready_is_published_then() -> None:
    bench = LinkBench(is_ready=False)
    bench.deliver(1, b"a")
    assert bench.heard() == []
    bench.link.upstream_ready(None)
    assert bench.heard() == [b"a"]


def test_the_upstream_is_read_no_further_while_many_bytes_wait_or_are_not_confirmed() -> None:
    bench, half = LinkBench(), bytes(IN_FLIGHT_BYTES_MAX // 2)
    bench.deliver(1, half)
    assert bench.heard() == [half]
    bench.deliver(2, half)
    assert bench.heard() == [half, "pause"]
    bench.deliver(3, b"c")
    assert bench.heard() == []
    bench.confirm(1)
    assert bench.heard() == [("ack", 1, 1, True), b"c", "resume"]
    bench.link.blocked("low on memory")
    bench.deliver(4, half)
    assert bench.heard() == ["pause"]
    bench.link.blocked(None)
    bench.confirm(2, 4, multiple=True)
    assert bench.heard() == [half, ("ack", 2, 2, True), ("ack", 3, 3, True), ("ack", 4, 4, True), "resume"]


def test_a_stamped_message_has_headers_and_loses_what_the_stamp_took_off() -> None:
    bench = LinkBench()
    bench.deliver(1, b"a", look=LOOK_CC)
    assert bench.here.looks == [LOOK_HEADERS]


@pytest.mark.parametrize("ack_mode", ["on-confirm", "on-publish"])
def test_a_link_that_ends_while_it_publishes_acknowledges_nothing_of_that(ack_mode: str) -> None:
    bench = LinkBench(ack_mode)
    bench.here.upon_publish = lambda: bench.link.downstream_ended("the vhost is gone")
    bench.deliver(1, b"a", b"drop", b"c")
    assert bench.heard() == [b"a", "close there", "close here"]
    assert (bench.link.status().state, bench.link.status().unconfirmed) == (LinkState.ERROR, 0)
    bench.clock.advance(3)
    bench.link.upstream_ready(None)
    bench.deliver(1, b"b")
    bench.heard()
    bench.confirm(1)
    assert bench.heard() == ([("ack", 1, 1, True)] if ack_mode == "on-confirm" else [])


def test_neighbours_of_one_that_may_not_be_published_are_not_when_the_link_has_ended_meanwhile() -> None:
    bench = LinkBench()
    bench.here.refuses = b"c"
    bench.here.upon_publish = lambda: bench.link.downstream_ended("the vhost is gone")
    bench.deliver(1, b"a", b"b", b"c")
    assert bench.heard() == [b"a", "close there", "close here"]


def test_a_link_that_leaves_passes_nothing_on_and_does_not_wait_for_ever() -> None:
    bench = LinkBench()
    bench.link.leave()
    bench.deliver(1, b"a")
    assert bench.heard() == ["ask"]
    bench.clock.advance(LEAVE_S + 0.1)
    assert bench.heard() == ["close there", "close here"]
    assert bench.link.status().state is LinkState.SHUTDOWN


def test_a_link_that_leaves_ends_once_that_was_answered() -> None:
    bench = LinkBench()
    bench.link.leave()
    bench.link.upstream_ready(None)
    assert bench.heard() == ["ask", "close there", "close here"]


def test_a_link_that_waits_for_its_next_attempt_has_nobody_to_ask_and_leaves_at_once() -> None:
    bench = LinkBench()
    bench.link.upstream_ended("its connection was closed")
    bench.heard()
    bench.link.leave()
    bench.clock.advance(100)
    assert (bench.heard(), bench.link.status().state) == ([], LinkState.SHUTDOWN)


def test_an_upstream_that_ends_while_the_link_leaves_does_not_begin_it_again() -> None:
    bench = LinkBench()
    bench.link.leave()
    bench.link.upstream_ended("its connection was closed")
    bench.clock.advance(100)
    assert bench.heard() == ["ask", "close there", "close here"]
    assert bench.link.status().restarts == 0


def test_a_link_that_was_stopped_between_two_attempts_begins_no_other() -> None:
    bench = LinkBench()
    bench.link.upstream_ended("its connection was closed")
    bench.link.stop()
    bench.clock.advance(100)
    assert (bench.link.status().state, bench.link.status().restarts) == (LinkState.SHUTDOWN, 0)


def test_a_broker_that_takes_nothing_here_is_told_as_the_reason_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = LinkBench()
    bench.heard()

    def refuse(link: FederationLink) -> HeardEnd:
        raise DownstreamRefused("the vhost has too many connections")

    with monkeypatch.context() as refusing:
        refusing.setattr(bench, "open_downstream", refuse)
        bench.link.restart()
        status = bench.link.status()
        assert (status.state, status.error) == (LinkState.ERROR, "here: the vhost has too many connections")
        assert bench.heard() == ["close there", "close here"], "and nothing is opened there"
    bench.clock.advance(2.1)
    assert bench.link.status().state is LinkState.STARTING
    bench.link.upstream_ready(None)
    bench.deliver(1, b"a")
    assert bench.heard() == [b"a"]


def test_a_link_says_why_it_ended_how_often_it_began_again_and_where_it_goes() -> None:
    bench = LinkBench()
    bench.link.upstream_ended("its connection was closed")
    status = bench.link.status()
    assert (status.state, status.error, status.restarts) == (LinkState.ERROR, "its connection was closed", 0)
    bench.clock.advance(2.1)
    status = bench.link.status()
    assert (status.state, status.restarts, status.uri) == (LinkState.STARTING, 1, "amqp://there")


def test_what_an_end_says_after_it_was_closed_is_not_heard() -> None:
    """Its tags are those of other messages by then."""
    bench = LinkBench()
    bench.link.upstream_ended("its connection was closed")
    bench.deliver(1, b"late")
    bench.link.upstream_ready(None)
    bench.confirm(1)
    bench.clock.advance(2.1)
    bench.link.upstream_ready(None)
    bench.heard()
    bench.deliver(1, b"a")
    bench.confirm(1)
    assert bench.heard() == [b"a", ("ack", 1, 1, True)]


def test_a_link_that_leaves_ends_at_once_where_its_upstream_does() -> None:
    bench = LinkBench()
    bench.link.leave()
    bench.link.upstream_ended("its connection was closed")
    assert bench.heard() == ["ask", "close there", "close here"]


def test_a_message_that_was_dropped_is_told_with_the_reason() -> None:
    bench = LinkBench()
    bench.here.refuses = b"b"
    bench.deliver(1, b"b")
    status = bench.link.status()
    assert (status.dropped, status.error) == (1, "a message was dropped that may not be published here")


def test_without_a_delay_a_link_that_ended_stays_so() -> None:
    bench = LinkBench(reconnect_delay_s=0.0)
    bench.link.upstream_ended("its connection was closed")
    assert bench.link.status().state is LinkState.SHUTDOWN


def test_the_delay_is_short_again_once_something_has_arrived() -> None:
    bench = LinkBench()
    for _ in range(3):
        bench.link.upstream_ended("its connection was closed")
        bench.clock.advance(2.1)
        assert bench.link.status().state is LinkState.STARTING, "it waits longer each time"
        bench.link.upstream_ready(None)
        bench.deliver(1, b"a")
        bench.confirm(1)
