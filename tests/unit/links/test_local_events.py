"""links/local_conversation.py alone: what its user is told, when, and what it is not told any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.pending import Pending
from links.amqp.conversation import CANCELLED, Steps
from links.amqp.events import Delivered
from links.amqp.opening import ClientTerms
from links.local_conversation import HERE, PROTOCOL, UNTOLD_BYTES_MAX, LocalConversation
from links.shovel.setup import MAIN_CHANNEL
from native.content import encode
from tests.unit.broker.broker_world import SECRET, World
from tests.unit.broker.later_turns import LaterTurns
from tests.unit.links.hand_clock import HandClock
from wire.amqp.tables import encode_properties

CONSUME = {"queue": "q", "consumer_tag": "t", "no_local": False, "no_ack": False, "exclusive": False, "no_wait": False}


def consuming() -> Steps:
    yield MAIN_CHANNEL, "basic.qos", {"prefetch_size": 0, "prefetch_count": 0, "global": False}
    yield MAIN_CHANNEL, "basic.consume", {**CONSUME, "arguments": {}}


def nothing() -> Steps:
    yield MAIN_CHANNEL, "channel.open", {}


class Spoken:
    """A conversation with a broker, and all that its user is told. Fulfils ConversationUser."""

    def __init__(self, steps: Steps) -> None:
        self.world, self.clock = World(), HandClock()
        self.clock.now = self.world.now / 1000
        self.client = self.world.client()
        self.client.declare("q")
        terms = ClientTerms("/", "PLAIN", "guest", SECRET.decode(), 0, properties={"connection_name": "c"})
        self.conversation = LocalConversation(self.world.broker, terms, "1", steps, self.clock, self)
        self.told: list[Any] = []
        self.upon: Callable[[str], None] = lambda what: None

    def tell(self, what: str, value: Any = None) -> None:
        self.told.append((what, value))
        self.upon(what)

    def names(self) -> list[str]:
        return [what for what, _ in self.told]

    def runs(self) -> list[Delivered]:
        return [value for what, value in self.told if what == "delivered"]

    def open(self) -> Spoken:
        self.conversation.open()
        self.world.end_turn()
        return self

    def ready(self, result: Any) -> None:
        self.tell("ready")

    def delivered(self, run: Delivered) -> None:
        self.tell("delivered", run)

    def confirmed(self, confirmed: Any) -> None:
        self.tell("confirmed", confirmed)

    def returned(self, returned: Any) -> None:
        self.tell("returned", returned)

    def blocked(self, reason: str | None) -> None:
        self.tell("blocked", reason)

    def writable(self, writable: bool) -> None:
        self.tell("writable", writable)

    def ended(self, reason: str) -> None:
        self.tell("ended", reason)


def test_one_that_ends_leaves_the_broker_and_says_so_once_whatever_its_user_does() -> None:
    spoken = Spoken(consuming()).open()
    assert [one for one in spoken.world.broker.connections() if one.protocol == PROTOCOL]
    spoken.conversation.cancelled("t")
    for _ in range(3):
        spoken.conversation.flush()
    assert spoken.names().count("ended") == 1
    assert not [one for one in spoken.world.broker.connections() if one.protocol == PROTOCOL]


def test_of_one_turn_it_takes_so_many_bytes_and_the_queue_goes_on_in_the_next() -> None:
    spoken, most = Spoken(consuming()), 0
    spoken.client.bind("q", "amq.fanout", "")
    for number in range(7):  # from two exchanges in turn, so that none travels with another
        spoken.client.publish(("", "amq.fanout")[number % 2], "q", bytes([number]) * (UNTOLD_BYTES_MAX // 2))
    deliver = spoken.conversation.deliver

    def delivered(*given: Any) -> None:
        nonlocal most
        deliver(*given)
        most = max(most, spoken.conversation._untold_bytes)

    spoken.conversation.deliver = delivered  # type: ignore[method-assign, assignment]
    spoken.open()
    for _ in range(7):
        spoken.world.end_turn()
    assert sum(run.count for run in spoken.runs()) == 7
    assert UNTOLD_BYTES_MAX <= most < 2 * UNTOLD_BYTES_MAX


def test_one_that_pauses_is_given_nothing_until_it_goes_on() -> None:
    spoken = Spoken(consuming()).open()
    spoken.conversation.pause()
    spoken.client.publish("", "q", b"a")
    assert spoken.runs() == [] and spoken.world.ready("q") == 1
    spoken.conversation.resume()
    spoken.world.end_turn()
    assert [run.first_tag for run in spoken.runs()] == [1]


def test_what_comes_again_is_told_with_the_mark_and_as_it_lies_in_the_queue() -> None:
    spoken = Spoken(consuming()).open()
    with spoken.world.one_turn():
        spoken.client.publish("", "q", b"a", b"b")
        spoken.client.publish("", "q", b"c", delivery_mode=2)
    spoken.conversation.give_back(2, 2)
    spoken.world.end_turn()
    assert [(run.first_tag, run.count, run.redelivered, run.persistent) for run in spoken.runs()] == [
        (1, 2, False, False), (3, 1, False, True), (4, 1, True, False),
    ]  # fmt: skip


def test_acknowledgements_of_some_leave_those_before_them() -> None:
    spoken = Spoken(consuming()).open()
    spoken.client.publish("", "q", *(b"%d" % number for number in range(5)))
    spoken.conversation.acknowledge(2, 3, multiple=False)
    spoken.conversation.close()
    spoken.world.end_turn()
    assert spoken.client.bodies_of("q") == [b"0", b"3", b"4"]


def test_who_closes_while_it_is_told_hears_no_more() -> None:
    spoken = Spoken(consuming()).open()
    spoken.upon = lambda what: spoken.conversation.close()
    with spoken.world.one_turn():
        spoken.client.publish("", "q", b"a")
        spoken.client.publish("", "q", b"b", delivery_mode=2)
    spoken.world.end_turn()
    assert spoken.names() == ["ready", "delivered"]
    assert spoken.client.bodies_of("q") == [b"a", b"b"]


def test_what_it_publishes_when_it_has_ended_is_not_published() -> None:
    spoken = Spoken(nothing()).open()
    content = encode(encode_properties({}), b"a")
    spoken.conversation.timed_out("t")
    spoken.conversation.publish(b"", b"q", content, 1, mandatory=False)
    spoken.world.end_turn()
    spoken.conversation.publish(b"", b"q", content, 1, mandatory=False)
    assert spoken.told[-1] == ("ended", CANCELLED) and spoken.names().count("ended") == 1
    assert spoken.world.ready("q") == 0


def test_while_very_many_queues_get_what_it_published_it_is_asked_once_to_wait() -> None:
    spoken = Spoken(nothing()).open()
    spoken.world.broker.queues_per_step = 2
    spoken.client.declare_exchange("wide", "fanout")
    for name in "abcdef":
        spoken.client.declare(name)
        spoken.client.bind(name, "wide", "")
    later = LaterTurns(spoken.world, steps_max=1)
    plain, durable = (encode(encode_properties({"delivery_mode": mode}), b"a") for mode in (1, 2))
    spoken.conversation.publish(b"wide", b"", plain + durable, 2, mandatory=False)
    while later.one():
        spoken.world.end_turn()
    assert spoken.told[1:] == [("writable", False), ("writable", True)]
    assert spoken.world.ready("f") == 2


def test_what_the_broker_says_before_it_is_ready_is_told_behind_that() -> None:
    spoken, declared = Spoken(nothing()), Pending[Any]()
    spoken.conversation._ask = lambda method, arguments: declared  # type: ignore[method-assign]
    spoken.open()
    (link,) = [one for one in spoken.world.broker.connections() if one.protocol == PROTOCOL]
    link.set_blocked("low on memory")
    spoken.world.end_turn()
    assert spoken.names() == []
    declared.resolve(None)
    spoken.world.end_turn()
    assert spoken.names() == ["ready", "blocked"]


def test_one_that_is_closed_before_its_login_is_answered_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    spoken, login = Spoken(nothing()), Pending[Any]()
    answered = spoken.world.broker.authenticate("guest", SECRET, HERE)
    monkeypatch.setattr(spoken.world.broker, "authenticate", lambda *given: login)
    spoken.open()
    spoken.conversation.close()
    before = len(list(spoken.world.broker.connections()))
    answered.then(login.resolve, login.fail)
    spoken.world.end_turn()
    assert len(list(spoken.world.broker.connections())) == before
    assert spoken.told == []
