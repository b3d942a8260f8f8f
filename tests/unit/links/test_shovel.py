"""links/shovel/shovel.py over doors and a clock that a test holds in its hand."""

from __future__ import annotations

from typing import Any

import pytest

from links.amqp.events import Confirmed, Delivered, PublishReturned
from links.shovel.definition import read_definition
from links.shovel.shovel import AUTODELETE, BATCH_BYTES_MAX, IN_FLIGHT_BYTES_MAX, STALL_S, Shovel
from links.shovel.shovel_status import ShovelState
from native.content import encode, messages
from tests.unit.links.hand_clock import HandClock


class Ends:
    """Both doors: writes down what the shovel asks of them."""

    source_uri = "amqp://source"
    destination_uri = "amqp://destination"

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.opened = 0

    def open_destination(self, shovel: Shovel) -> Ends:
        self.opened += 1
        self.said.append("open destination")
        return self

    def open_source(self, shovel: Shovel) -> Ends:
        self.said.append("open source")
        return self

    def acknowledge(self, first: int, last: int, *, multiple: bool) -> None:
        self.said.append(("ack", first, last, multiple))

    def give_back(self, first: int, last: int) -> None:
        self.said.append(("nack", first, last))

    def publish(self, exchange: bytes, routing_key: bytes, content: bytes, count: int, *, mandatory: bool) -> None:
        bodies = [body for _, body in messages(content, 0, count)]
        self.said.append(("publish", exchange, routing_key, bodies, mandatory))

    def pause(self) -> None:
        self.said.append("pause")

    def resume(self) -> None:
        self.said.append("resume")

    def close(self) -> None:
        self.said.append("close")

    def heard(self) -> list[Any]:
        said, self.said = self.said, []
        return said


class Bench:
    """A shovel that is running."""

    def __init__(self, message_count: int = 0, **value: Any) -> None:
        given = {"src-uri": "amqp://s", "src-queue": "from", "dest-uri": "amqp://d", "dest-queue": "to"}
        given |= {key.replace("_", "-"): one for key, one in value.items()}
        given = {key: one for key, one in given.items() if one is not None}
        self.clock, self.ends = HandClock(), Ends()
        self.finished = 0
        self.reasons: list[str] = []  # why it ended
        self.shovel = Shovel(
            read_definition("s", given), self.ends, dict, self.clock, lambda: 0.5, self._finish, self.reasons.append
        )
        self.shovel.start()
        self.run(message_count)

    def _finish(self) -> None:
        self.finished += 1

    def run(self, message_count: int = 0) -> None:
        self.shovel.destination_ready()
        self.shovel.source_ready(message_count)
        self.ends.heard()

    def deliver(self, first: int, *bodies: bytes, key: bytes = b"from", together: bool = False) -> None:
        """`together`: with the next ones."""
        content = b"".join(encode(b"\0\0", body) for body in bodies)
        names = (1, b"c", first, False, b"", key, len(bodies), content, sum(map(len, bodies)))
        self.shovel.delivered(Delivered(*names, False, 0, None, None, 0))
        if not together:
            self.clock.advance(0)

    def confirm(self, first: int, last: int, *, multiple: bool = False, ok: bool = True) -> None:
        self.shovel.confirmed(Confirmed(1, first, last, multiple, ok))


def test_a_message_is_acknowledged_when_the_destination_has_confirmed_it_and_not_before() -> None:
    bench = Bench()
    bench.deliver(1, b"a", b"b")
    assert bench.ends.heard() == [("publish", b"", b"to", [b"a", b"b"], True)]
    bench.confirm(2, 2)
    assert bench.ends.heard() == [("ack", 2, 2, False)]
    bench.confirm(1, 1)
    assert bench.ends.heard() == [("ack", 1, 1, True)]
    assert bench.shovel.status().forwarded == 2


def test_confirms_of_many_are_one_acknowledgement() -> None:
    bench = Bench()
    bench.deliver(1, b"a", b"b")
    bench.deliver(3, b"c")
    bench.ends.heard()
    bench.confirm(3, 3, multiple=True)
    assert bench.ends.heard() == [("ack", 1, 3, True)]


def test_runs_of_many_keys_that_go_to_one_queue_are_one_publish() -> None:
    bench = Bench()
    for number in range(1, 4):
        bench.deliver(number, b"%d" % number, key=b"k%d" % number, together=number < 3)
    assert bench.ends.heard() == [("publish", b"", b"to", [b"1", b"2", b"3"], True)]
    bench.confirm(2, 2, multiple=True)
    assert bench.ends.heard() == [("ack", 1, 2, True)]


def test_runs_that_keep_their_keys_are_one_publish_for_each_stretch() -> None:
    bench = Bench(dest_exchange="x", dest_queue=None)
    for number, key in enumerate((b"k", b"k", b"l", b"k"), 1):
        bench.deliver(number, b"%d" % number, key=key, together=number < 4)
    published = [(key, bodies) for _, _, key, bodies, _ in bench.ends.heard()]
    assert published == [(b"k", [b"1", b"2"]), (b"l", [b"3"]), (b"k", [b"4"])]


def test_a_batch_ends_where_no_more_is_wanted_and_at_its_size() -> None:
    bench = Bench(src_delete_after=3)
    bench.deliver(1, b"a", b"b", together=True)
    bench.deliver(3, b"c", b"d")
    assert [bodies for _, _, _, bodies, _ in bench.ends.heard()] == [[b"a", b"b", b"c"]]
    large = Bench()
    for number in range(1, 4):
        large.deliver(number, bytes(BATCH_BYTES_MAX // 2), together=number < 3)
    assert [len(bodies) for _, _, _, bodies, _ in large.ends.heard()] == [1, 1, 1]


def test_what_waited_when_an_end_went_is_not_published_at_the_next_one() -> None:
    bench = Bench(reconnect_delay=1)
    bench.deliver(1, b"a", together=True)
    bench.shovel.source_ended("gone")
    bench.clock.advance(0)
    assert bench.ends.heard() == ["close", "close"]


def test_what_the_destination_refuses_goes_back_after_a_pause() -> None:
    """At once it came again at once: a full queue kept both brokers busy."""
    bench = Bench(reconnect_delay=2)
    bench.deliver(1, b"a", b"b", b"c")
    bench.ends.heard()
    bench.confirm(2, 2, ok=False)
    bench.confirm(3, 3, multiple=True)
    assert bench.ends.heard() == [("ack", 1, 1, True), ("ack", 3, 3, False)]
    assert "a queue there is full" in bench.shovel.status().reason
    bench.clock.advance(1.9)
    assert bench.ends.heard() == []
    bench.clock.advance(0.2)
    assert bench.ends.heard() == [("nack", 2, 2)]


def test_what_no_queue_wants_goes_back_after_a_pause() -> None:
    bench = Bench(reconnect_delay=5)
    bench.deliver(1, b"a", b"b")
    bench.ends.heard()
    bench.shovel.returned(PublishReturned(1, 312, "NO_ROUTE", "", "to", b"\0\0", b"b"))
    bench.confirm(2, 2, multiple=True)
    assert bench.ends.heard() == [("ack", 1, 1, True)]
    bench.clock.advance(4.9)
    assert bench.ends.heard() == []
    bench.clock.advance(0.2)
    assert bench.ends.heard() == [("nack", 2, 2)]
    assert bench.shovel.status().returned == 1


def test_a_return_of_something_else_begins_again() -> None:
    bench = Bench()
    bench.deliver(1, b"a")
    bench.shovel.returned(PublishReturned(1, 312, "NO_ROUTE", "", "to", b"\0\0", b"other"))
    status = bench.shovel.status()
    assert (status.state, status.unconfirmed) == (ShovelState.TERMINATED, 0)
    assert "was not on its way" in status.reason


def test_on_publish_acknowledges_at_once() -> None:
    bench = Bench(ack_mode="on-publish")
    bench.deliver(1, b"a", b"b")
    assert bench.ends.heard() == [("publish", b"", b"to", [b"a", b"b"], False), ("ack", 1, 2, True)]
    bench.deliver(3, b"c")
    assert bench.ends.heard() == [("publish", b"", b"to", [b"c"], False), ("ack", 3, 3, True)]


def test_no_ack_acknowledges_nothing() -> None:
    bench = Bench(ack_mode="no-ack")
    bench.deliver(1, b"a")
    assert bench.ends.heard() == [("publish", b"", b"to", [b"a"], False)]


@pytest.mark.parametrize("ack_mode", ["on-publish", "no-ack"])
def test_without_confirms_what_is_published_counts_as_forwarded(ack_mode: str) -> None:
    bench = Bench(ack_mode=ack_mode)
    bench.deliver(1, b"a", b"b")
    status = bench.shovel.status()
    assert (status.forwarded, status.unconfirmed) == (2, 0)


@pytest.mark.parametrize("ack_mode", ["on-publish", "no-ack"])
def test_without_confirms_nothing_is_on_its_way_and_it_never_stops_for_that(ack_mode: str) -> None:
    bench = Bench(ack_mode=ack_mode)
    for first in (1, 2, 3):
        bench.deliver(first, b"x" * (IN_FLIGHT_BYTES_MAX - 100))
    assert [one[0] for one in bench.ends.heard() if one[0] == "publish"] == ["publish"] * 3
    assert bench.shovel.status().pending == 0


def test_what_was_refused_before_a_restart_is_not_given_back_to_the_next_source() -> None:
    """The same tag is another message there: it would be back in its queue, and acknowledged, too."""
    bench = Bench(reconnect_delay=5)
    bench.deliver(1, b"a")
    bench.confirm(1, 1, ok=False)
    bench.shovel.restart()
    bench.run()
    bench.deliver(1, b"a")
    bench.clock.advance(6)
    assert bench.ends.heard() == [("publish", b"", b"to", [b"a"], True)]


class TestDeleteAfter:
    def test_so_many_are_forwarded_and_then_it_is_over(self) -> None:
        bench = Bench(src_delete_after=2)
        bench.deliver(1, b"a", b"b", b"c")
        assert bench.ends.heard() == [("publish", b"", b"to", [b"a", b"b"], True)]
        bench.confirm(1, 1)
        assert (bench.finished, bench.shovel.status().remaining_unacked) == (0, 1)
        bench.confirm(2, 2)
        assert bench.finished == 1
        assert bench.ends.heard() == [("ack", 1, 1, True), ("ack", 2, 2, True), "close", "close"]

    def test_what_was_refused_does_not_count(self) -> None:
        bench = Bench(src_delete_after=1)
        bench.deliver(1, b"a", b"b")
        bench.confirm(1, 1, ok=False)
        bench.clock.advance(6)
        assert bench.ends.heard()[-2:] == [("nack", 1, 1), ("publish", b"", b"to", [b"b"], True)]
        bench.confirm(2, 2)
        assert bench.finished == 1

    def test_an_empty_queue_is_moved_at_once(self) -> None:
        assert Bench(0, src_delete_after="queue-length").finished == 1

    def test_after_a_restart_it_goes_on_with_what_is_left(self) -> None:
        bench = Bench(3, src_delete_after="queue-length", reconnect_delay=1)
        bench.deliver(1, b"a", b"b")
        bench.confirm(1, 2)
        bench.shovel.source_ended("gone")
        bench.clock.advance(2)
        bench.run(1)
        bench.deliver(1, b"c")
        bench.confirm(1, 1)
        assert bench.finished == 1
        assert bench.shovel.status().reason == AUTODELETE

    def test_what_came_to_its_queue_since_is_left_there_after_a_restart(self) -> None:
        bench = Bench(3, src_delete_after="queue-length", reconnect_delay=1)
        bench.deliver(1, b"a", b"b")
        bench.confirm(1, 2)
        bench.shovel.source_ended("gone")
        bench.clock.advance(2)
        bench.run(10)
        assert bench.shovel.status().remaining == 1
        bench.deliver(1, b"c", b"later")
        bench.confirm(1, 1)
        assert bench.finished == 1

    def test_after_its_time_it_is_over_at_once_where_nothing_is_on_its_way(self) -> None:
        bench = Bench(src_delete_after_duration=30)
        bench.clock.advance(31)
        assert (bench.finished, bench.ends.heard()) == (1, ["close", "close"])

    def test_after_its_time_what_is_on_its_way_arrives_and_nothing_more_is_taken(self) -> None:
        bench = Bench(src_delete_after_duration=30)
        bench.clock.advance(29)
        bench.deliver(1, b"a")
        bench.clock.advance(2)
        bench.deliver(2, b"b")
        assert bench.ends.heard() == [("publish", b"", b"to", [b"a"], True)]
        assert bench.finished == 0
        bench.confirm(1, 1)
        assert bench.finished == 1

    def test_its_time_runs_while_an_end_is_away(self) -> None:
        bench = Bench(src_delete_after_duration=30, reconnect_delay=60)
        bench.shovel.source_ended("gone")
        bench.clock.advance(31)
        assert bench.finished == 1
        bench.clock.advance(120)
        assert bench.finished == 1

    def test_what_was_on_its_way_when_it_broke_is_still_to_be_moved(self) -> None:
        bench = Bench(2, src_delete_after="queue-length", reconnect_delay=1)
        bench.deliver(1, b"a", b"b")
        bench.shovel.destination_ended("gone")
        assert bench.shovel.status().remaining == 2

    def test_what_was_refused_and_not_given_back_when_it_broke_is_still_to_be_moved(self) -> None:
        bench = Bench(3, src_delete_after="queue-length", reconnect_delay=5)
        bench.deliver(1, b"a", b"b", b"c")
        bench.confirm(1, 1)
        bench.confirm(2, 2, ok=False)
        assert bench.shovel.status().remaining_unacked == 2
        bench.shovel.destination_ended("gone")
        assert bench.shovel.status().remaining == 2
        bench.clock.advance(6)
        assert (bench.finished, bench.shovel.status().remaining) == (0, 2)

    def test_what_ends_it_otherwise_ends_its_time_too(self) -> None:
        """It was over a second time: what had been declared under its name since was cleared."""
        bench = Bench(src_delete_after=1, src_delete_after_duration=30)
        bench.deliver(1, b"a")
        bench.confirm(1, 1)
        assert bench.finished == 1
        bench.clock.advance(100)
        assert bench.finished == 1

    def test_the_time_of_one_that_was_stopped_is_never_over(self) -> None:
        """Another node may run it."""
        bench = Bench(src_delete_after_duration=30, reconnect_delay=1)
        bench.shovel.source_ended("gone")
        bench.clock.advance(2)
        bench.run()
        bench.shovel.stop()
        bench.clock.advance(100)
        assert bench.finished == 0


class TestEnds:
    def test_it_begins_again_with_growing_pauses(self) -> None:
        bench = Bench(reconnect_delay=4)
        for pause in (4, 8, 16, 32, 60, 60):
            opened = bench.ends.opened
            bench.shovel.destination_ended("refused")
            assert bench.shovel.status().state is ShovelState.TERMINATED
            bench.clock.advance(pause - 0.1)
            assert bench.ends.opened == opened
            bench.clock.advance(0.2)
            assert bench.ends.opened == opened + 1

    def test_after_a_message_has_arrived_pauses_are_short_again(self) -> None:
        bench = Bench(reconnect_delay=4)
        bench.shovel.source_ended("gone")
        bench.clock.advance(4)
        bench.run()
        bench.deliver(1, b"a")
        bench.confirm(1, 1)
        bench.shovel.source_ended("gone")
        bench.clock.advance(4)
        assert bench.shovel.status().state is ShovelState.STARTING

    def test_without_a_delay_it_stays_ended(self) -> None:
        bench = Bench(reconnect_delay=0)
        bench.shovel.source_ended("gone")
        bench.clock.advance(1000)
        status = bench.shovel.status()
        assert (status.state, status.reason) == (ShovelState.TERMINATED, "source: gone")
        assert bench.reasons == ["source: gone"]

    def test_each_new_beginning_is_counted(self) -> None:
        bench = Bench(reconnect_delay=1)
        bench.shovel.source_ended("gone")
        assert bench.shovel.status().restarts == 0
        bench.clock.advance(2)
        assert bench.shovel.status().restarts == 1

    def test_one_that_is_stopped_while_it_waits_for_its_next_try_stays_stopped(self) -> None:
        bench = Bench(reconnect_delay=4)
        bench.shovel.source_ended("gone")
        bench.shovel.stop()
        bench.clock.advance(120)
        assert (bench.ends.opened, bench.shovel.status().state) == (1, ShovelState.TERMINATED)

    def test_one_that_is_restarted_while_it_waits_for_its_next_try_is_not_started_twice(self) -> None:
        bench = Bench(reconnect_delay=4)
        bench.shovel.source_ended("gone")
        bench.shovel.restart()
        bench.clock.advance(30)
        assert bench.ends.opened == 2

    def test_tags_out_of_turn_begin_again_rather_than_acknowledge_the_wrong_message(self) -> None:
        bench = Bench(reconnect_delay=1)
        bench.deliver(2, b"a")
        assert bench.shovel.status().reason == "the source delivered tag 2 out of turn"
        bench.clock.advance(2)
        bench.run()
        bench.deliver(1, b"b")
        assert bench.ends.heard() == [("publish", b"", b"to", [b"b"], True)]

    def test_what_an_end_says_after_it_was_closed_is_not_heard(self) -> None:
        bench = Bench(reconnect_delay=1)
        bench.shovel.source_ended("gone")
        bench.deliver(1, b"late")
        bench.clock.advance(2)
        bench.run()
        assert bench.shovel.status().pending == 0
        bench.deliver(1, b"a")
        assert bench.ends.heard() == [("publish", b"", b"to", [b"a"], True)]

    def test_it_is_starting_as_long_as_it_has_no_source(self) -> None:
        bench = Bench(reconnect_delay=1)
        bench.shovel.destination_ended("gone")
        bench.clock.advance(2)
        bench.shovel.blocked("low on memory")
        assert bench.shovel.status().state is ShovelState.STARTING
        bench.shovel.blocked(None)
        assert bench.shovel.status().state is ShovelState.STARTING


class TestPressure:
    def test_nothing_is_published_while_the_destination_is_blocked(self) -> None:
        bench = Bench()
        bench.shovel.blocked("low on memory")
        bench.deliver(1, b"a")
        assert bench.ends.heard() == []
        assert (bench.shovel.status().state, bench.shovel.status().pending) == (ShovelState.BLOCKED, 1)
        bench.shovel.blocked(None)
        assert bench.ends.heard() == [("publish", b"", b"to", [b"a"], True)]
        assert bench.shovel.status().state is ShovelState.RUNNING

    def test_a_destination_that_reads_slowly_is_flow(self) -> None:
        bench = Bench()
        bench.shovel.writable(False)
        assert bench.shovel.status().state is ShovelState.FLOW

    def test_the_source_is_not_read_while_too_much_is_on_its_way(self) -> None:
        bench = Bench()
        bench.deliver(1, b"x" * IN_FLIGHT_BYTES_MAX, together=True)
        assert bench.ends.heard() == ["pause"], "before anything else is read"
        bench.clock.advance(0)
        assert [one[0] for one in bench.ends.heard()] == ["publish"]
        bench.confirm(1, 1)
        assert bench.ends.heard() == [("ack", 1, 1, True), "resume"]

    def test_what_was_read_already_waits_while_too_much_is_on_its_way(self) -> None:
        bench = Bench()
        bench.deliver(1, b"x" * IN_FLIGHT_BYTES_MAX)
        bench.deliver(2, b"next")
        assert [one[0] for one in bench.ends.heard() if one != "pause"] == ["publish"]
        bench.confirm(1, 1)
        assert bench.ends.heard() == [("ack", 1, 1, True), ("publish", b"", b"to", [b"next"], True), "resume"]


class TestWatchdog:
    def test_work_that_does_not_move_begins_again_and_is_counted(self) -> None:
        bench = Bench()
        bench.deliver(1, b"a")
        bench.ends.heard()
        bench.clock.advance(STALL_S + 6)
        status = bench.shovel.status()
        assert (status.stalls, status.restarts, status.state) == (1, 1, ShovelState.STARTING)
        assert status.reason.startswith("stalled: 1 messages waited, and none moved for ")
        assert bench.ends.heard() == ["close", "close", "open destination"]

    def test_what_moves_slowly_is_no_stall(self) -> None:
        bench = Bench()
        bench.deliver(1, *[b"x"] * 10)
        for number in range(1, 10):
            bench.clock.advance(STALL_S / 2)
            bench.confirm(number, number)
        assert bench.shovel.status().stalls == 0

    def test_what_stands_still_is_noticed_however_long_it_had_nothing_to_do(self) -> None:
        bench = Bench()
        bench.clock.advance(STALL_S * 2)
        bench.deliver(1, b"a")
        bench.clock.advance(STALL_S / 2)
        assert bench.shovel.status().stalls == 0
        bench.clock.advance(STALL_S)
        assert bench.shovel.status().stalls == 1

    def test_nothing_to_do_is_no_stall(self) -> None:
        bench = Bench()
        bench.clock.advance(1000)
        assert bench.shovel.status().stalls == 0

    def test_a_destination_that_said_that_it_is_blocked_is_waited_for(self) -> None:
        bench = Bench()
        bench.deliver(1, b"a")
        bench.shovel.blocked("low on disk")
        bench.clock.advance(1000)
        assert bench.shovel.status().stalls == 0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"dest-queue": "q"}, (b"", b"q")),
        ({"dest-exchange": "e"}, (b"e", b"from")),
        ({"dest-exchange": "e", "dest-exchange-key": "k"}, (b"e", b"k")),
        ({}, (b"", b"from")),
    ],
)
def test_where_messages_go(value: dict[str, Any], expected: tuple[bytes, bytes]) -> None:
    bench = Bench()
    given = {"src-uri": "amqp://s", "src-queue": "from", "dest-uri": "amqp://d", **value}
    bench.shovel = Shovel(
        read_definition("s", given), bench.ends, dict, bench.clock, lambda: 0.5, on_finished=lambda: None
    )
    bench.shovel.start()
    bench.run()
    bench.deliver(1, b"a")
    assert bench.ends.heard()[0][1:3] == expected
