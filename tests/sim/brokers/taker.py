"""A consumer: takes messages by subscriptions and gets, thinks about each for a while, and settles it one way or the other."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from broker.errors import BrokerError
from broker.session.session import GotMessage, Session
from tests.histories.records import Acknowledged, Delivered, Left, Rejected, Requeued
from tests.sim.brokers import invariants
from tests.sim.brokers.channel import Channel, Given
from tests.sim.brokers.invariants import About
from tests.sim.plan import Ask

if TYPE_CHECKING:
    from tests.sim.brokers.world import BrokerWorld

THINKS_S = (0.0, 0.001, 0.01, 0.1, 0.5)
OUTCOMES = ("acknowledge", "requeue", "release", "reject", "keep")
CHANCES = (78, 7, 4, 6, 5)
NO_ACK_WINDOW = 2000  # what may be on its way to a consumer that acknowledges nothing


class Held:
    """A delivery that this client has not settled."""

    __slots__ = ("delivery", "given")

    def __init__(self, given: Given, delivery: int) -> None:
        self.given = given
        self.delivery = delivery


class Taker:
    """See the module. Fulfils channel.Owner. It has one subscription at a time."""

    def __init__(self, world: BrokerWorld, number: int) -> None:
        self.world = world
        self.name = f"t{number}"
        self.is_stalled = False
        self.taken = 0
        self._random = Random(f"{world.plan.seed} {self.name}")
        self._channel: Channel | None = None
        self._queue = ""
        self._prefetch = 0
        self._is_draining = self._is_gone = False
        self._held: dict[int, Held] = {}  # by tag
        self._prefetches: dict[str, int] = {}  # by consumer tag, on this channel
        self._waits = ""  # for which answer
        self._getting = ""  # from which queue
        self._drains = ""

    # The plan

    def ask(self, ask: Ask) -> None:
        if self._is_gone:
            return
        match ask.kind:
            case "consume":
                self._consume(ask.key)
            case "get":
                self._get(ask.key)
            case "leave" if self._channel is not None:
                self._leave()
            case "purge":
                self._purge(ask.key)
            case _:
                pass

    def drain(self, queue: str) -> None:
        """In the end: take all that is there, and acknowledge it."""
        self._is_draining, self._drains = True, queue
        self._consume(queue)

    @property
    def waits_for(self) -> str:
        return f"{self.name}: {self._waits}" if self._waits else ""

    def _open_channel(self) -> Channel | None:
        if self._channel is None:
            site = self.world.a_node(self._random)
            if site is None:
                return None
            self._channel = Channel(self.world, self, site, self.world.next_name(self.name))
        return self._channel

    def _consume(self, queue: str) -> None:
        if self._queue:
            return
        channel = (
            None if self._waits else self._open_channel()
        )  # one question at a time: each answer ends what is waited for
        if channel is None:
            if self._is_draining:
                self.world.loop.call_later(0.3, self._consume, queue)
            return
        self._queue, self._waits = queue, f"consuming {queue}"
        random = self._random
        no_ack = bool(self.world.shape.no_ack) and random.random() < 0.1 and not self._is_draining
        self._prefetch = 0 if no_ack else random.choice((1, 1, 3, 10, 20))
        if self._is_draining:
            self._prefetch = 20
        arguments: dict[str, Any] = {"x-priority": random.choice((0, 0, 1))} if self.world.shape.priorities else {}
        prefetch = self._prefetch

        def consume(session: Session, now: int) -> Any:
            tag = f"tag{self.world.next_number()}"
            self._prefetches[tag] = prefetch
            session.set_prefetch(prefetch, False)
            return session.consume(
                queue, tag, no_ack=no_ack, exclusive=False, no_local=False,
                arguments=arguments, now=now,
            )  # fmt: skip

        channel.ask(consume, self._consumes, self._refused)

    def _consumes(self, tag: str) -> None:
        self._waits = ""
        self._tag = tag

    def _refused(self, error: BrokerError) -> None:
        self.world.watch.count(f"taker told: {type(error).__name__}")
        self._waits = self._getting = ""
        if self._channel is not None:
            self._channel.lose(error.text)

    def _get(self, queue: str) -> None:
        channel = self._open_channel()
        if channel is None or self._waits:
            return
        self._waits, self._getting = f"a get of {queue}", queue
        no_ack = bool(self.world.shape.no_ack) and self._random.random() < 0.3

        def get(session: Session, now: int) -> Any:
            if no_ack and channel.process is not None:
                self.world.asking_for(channel.process, queue)
            return session.get(queue, no_ack, now).map(found)

        def found(got: GotMessage | None) -> Given | None:
            return channel.given(got) if got is not None else None

        def told(given: Given | None) -> None:
            self._waits = self._getting = ""
            if given is not None:
                self._take(given, f"{self.name} gets", no_ack=no_ack)  # they pass what its subscription has on its way

        channel.ask(get, told, self._refused)

    def _purge(self, queue: str) -> None:
        channel = self._open_channel()
        if channel is None or self._waits:
            return
        self._waits = f"a purge of {queue}"

        def purged(count: int) -> None:
            self._waits = ""
            self.world.look_at_purge(queue, count)

        channel.ask(lambda session, now: session.topology.purge_queue(queue, now), purged, self._refused)

    def _leave(self) -> None:
        """Cancel, settle the rest soon, or just go."""
        channel = self._channel
        if channel is None or not channel.is_open:
            return
        if self._random.random() < 0.5 or not self._queue or self._waits:
            channel.lose("its client goes")
            return
        tag = self._tag
        channel.say(lambda: channel.session.cancel(tag, channel.now))
        self._left()

    def _left(self) -> None:
        if self._queue:
            window = self._prefetch or NO_ACK_WINDOW
            self.world.record(Left(self.world.loop.time(), self._queue, self.name, window))
        self._queue = ""

    def go(self) -> None:
        """For ever."""
        self._is_gone = True
        if self._channel is not None:
            self._channel.lose("its client goes")

    # What it is told

    def opened(self, channel: Channel) -> None:
        """It has asked for what it wants already."""

    def confirmed(self, channel: Channel, first: int, last: int, multiple: bool, ok: bool) -> None:
        raise AssertionError(f"{self.name} publishes nothing")

    def returned(self, channel: Channel, bodies: list[bytes]) -> None:
        raise AssertionError(f"{self.name} publishes nothing")

    def delivered(self, channel: Channel, deliveries: list[Given]) -> None:
        for given in deliveries:
            prefetch = self._prefetches[given.consumer_tag]
            self._take(given, self.name, no_ack=prefetch == 0)
            if prefetch:
                self._look_at_prefetch(given, prefetch)

    def _look_at_prefetch(self, given: Given, prefetch: int) -> None:
        """The node knows of no settlement before this client has said it."""
        held = sum(one.given.consumer_tag == given.consumer_tag for one in self._held.values())
        invariants.prefetch_is_kept(About(self.name, self.world.watch.checked), self.name, held, prefetch)

    def _take(self, given: Given, consumer: str, *, no_ack: bool) -> None:
        world, now = self.world, self.world.loop.time()
        self.taken += 1
        world.served()
        delivery = world.next_number()
        publisher, number = given.body.split(b":", 2)[:2]
        deaths = tuple(world.deaths_of(given))
        world.record(
            Delivered(
                now, delivery, given.queue, consumer, publisher.decode(), int(number), given.redelivered, given.failures,
                given.acquired, deaths,
            )
        )  # fmt: skip
        if no_ack:
            world.record(Acknowledged(now, delivery))
            return
        self._hold(self._channel, Held(given, delivery))

    def _hold(self, channel: Channel | None, held: Held) -> None:
        """Until it decides what to do with it."""
        self._held[held.given.tag] = held
        self.world.loop.call_later(self._random.choice(THINKS_S), self._decide, channel, held.given.tag)

    def _decide(self, channel: Channel, tag: int) -> None:
        if channel is not self._channel or tag not in self._held:
            return
        if self.is_stalled:
            self.world.loop.call_later(0.5, self._decide, channel, tag)
            return
        outcome = "acknowledge" if self._is_draining else self._random.choices(OUTCOMES, CHANCES)[0]
        if outcome == "keep":
            self.world.loop.call_later(1.0 + 4 * self._random.random(), self._decide, channel, tag)
        elif outcome == "acknowledge" and self._random.random() < 0.2:
            self._acknowledge_all(channel, [one for one in self._held if one <= tag])
        else:
            self._settle(channel, tag, outcome)

    def _acknowledge_all(self, channel: Channel, tags: Sequence[int]) -> None:
        """Up to the last of these."""
        for tag in tags:
            self._note(tag, "acknowledge")
        last = max(tags)
        channel.say(lambda: channel.session.acknowledge(last, last, True, channel.now))

    def _settle(self, channel: Channel, tag: int, outcome: str) -> None:
        self._note(tag, outcome)
        if outcome == "acknowledge":
            channel.say(lambda: channel.session.acknowledge(tag, tag, False, channel.now))
        elif outcome == "release":
            channel.say(lambda: channel.session.nack(tag, False, True, channel.now))
        else:
            channel.say(lambda: channel.session.reject(tag, outcome == "requeue", channel.now))

    def _note(self, tag: int, outcome: str) -> None:
        self._record(self._held.pop(tag), outcome)

    def _record(self, held: Held, outcome: str) -> None:
        now = self.world.loop.time()
        if outcome == "acknowledge":
            self.world.acknowledging(held.given, held.delivery)
            self.world.record(Acknowledged(now, held.delivery))
        elif outcome in ("requeue", "release"):
            self.world.record(Requeued(now, held.delivery, is_failure=outcome == "requeue"))
        else:
            self.world.record(Rejected(now, held.delivery))

    def cancelled(self, channel: Channel, tag: str) -> None:
        self.world.watch.count("consumer cancelled by its node")
        self._left()

    def lost(self, channel: Channel, why: str) -> None:
        assert channel is self._channel, f"{channel.name} is not what {self.name} uses"
        queue = self._queue
        self._left()
        if self._getting:
            self.world.record(Left(self.world.loop.time(), self._getting, self.name, 1))
        self._getting = ""
        self._channel = None
        self._prefetches.clear()
        self._held.clear()
        self._waits = ""
        if self._is_draining:
            self.world.loop.call_later(0.3, self._consume, self._drains)
        elif queue and not self._is_gone and self._random.random() < 0.7:
            self.world.loop.call_later(0.1 + self._random.random(), self._consume, queue)

    # Faults

    def stall(self, for_s: float) -> bool:
        """It reads nothing and settles nothing for a while."""
        channel = self._channel
        if channel is None or not channel.is_open or self.is_stalled:
            return False
        self.is_stalled = True
        channel.is_writable = False
        self.world.loop.call_later(for_s, self._go_on, channel)
        return True

    def _go_on(self, channel: Channel) -> None:
        self.is_stalled = False
        channel.is_writable = True
        channel.say(lambda: channel.session.resume(channel.now))

    def lose_connection(self) -> bool:
        if self._channel is None or not self._channel.is_open:
            return False
        self._channel.lose("its network")
        return True
