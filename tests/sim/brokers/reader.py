"""A reader: a consumer of a stream, which gives credit back one way or the other, and goes on where it was.

When its connection or its node goes, or it just leaves, it mostly comes back on another node and asks for the offset behind the
last message that it was given.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from broker.errors import BrokerError, NotFound, PreconditionFailed
from broker.session.session import Session
from tests.sim.brokers.channel import Channel, Given
from tests.sim.brokers.site import BrokerSite
from tests.sim.brokers.stream_reading import Beginning, Reading
from tests.sim.plan import Ask

if TYPE_CHECKING:
    from tests.sim.brokers.world import BrokerWorld

THINKS_S = (0.0, 0.001, 0.01, 0.1, 0.5)
PREFETCHES = (1, 3, 10, 100)
BEGINNINGS = ("first", "last", "next", "offset", "time")
AGAIN_S = (0.05, 0.8)
GOES_ON = 0.8  # how often who comes back wants what follows


class Reader:
    """See the module. Fulfils channel.Owner. It has one subscription at a time, on a channel of its own."""

    def __init__(self, world: BrokerWorld, number: int) -> None:
        self.world = world
        self.name = f"r{number}"
        self.is_stalled = False
        self.is_in_a_hurry = False  # in the end: it thinks about nothing any more
        self.reading: Reading | None = None  # as its node has it
        self._random = Random(f"{world.plan.seed} {self.name}")
        self._channel: Channel | None = None
        self._queue = ""
        self._label = ""  # of the life of the stream that it reads
        self._next: int | None = None  # offset that it waits for
        self._tag = ""
        self._waits = ""
        self._is_gone = False
        self._is_wanted = True  # by the plan: a stream that is not declared is not asked for again

    # The plan

    def ask(self, ask: Ask) -> None:
        if ask.kind == "read" and not self._queue and not self._is_gone:
            self._is_wanted = True
            self._read(ask.key, self._drawn_beginning(ask.key))
        elif ask.kind == "unread":
            self._leave()

    def go(self) -> None:
        """For ever."""
        self._is_gone = True
        if self._channel is not None:
            self._channel.lose("its client goes")

    @property
    def waits_for(self) -> str:
        return f"{self.name}: {self._waits}" if self._waits else ""

    @property
    def is_idle(self) -> bool:
        """Whether it has been given all that there is for it, or reads nothing."""
        return self.reading is None or self.reading.is_at_end

    def _drawn_beginning(self, queue: str) -> Beginning:
        random, kind = self._random, self._random.choice(BEGINNINGS)
        if kind == "offset":
            return Beginning(kind, random.randint(0, self.world.streams.end_of(queue) + 5))
        if kind == "time":
            return Beginning(kind, self.world.streams.a_time(queue, random))
        return Beginning(kind)

    # Reading

    def _read(self, queue: str, beginning: Beginning) -> None:
        if self._queue or self._is_gone:
            return
        site = self._node()
        if site is None:
            self.world.loop.call_later(0.3, self._read, queue, beginning)
            return
        self._queue, self._waits = queue, f"reading {queue}"
        channel = self._channel = Channel(self.world, self, site, self.world.next_name(self.name))
        prefetch = self._random.choice(PREFETCHES)

        def consume(session: Session, now: int) -> Any:
            self._tag = tag = f"tag{self.world.next_number()}"
            assert channel.process is not None, f"{channel.name} is connected to no node"
            reading = self.world.streams.asks_for(channel.process, queue, tag, beginning)
            session.set_prefetch(prefetch, False)
            answer = session.consume(
                queue, tag, no_ack=False, exclusive=False, no_local=False,
                arguments={"x-stream-offset": beginning.argument}, now=now,
            )  # fmt: skip
            if not answer.answered:
                self.world.watch.count("stream reader waits to begin")
            return answer.map(lambda _: self.world.streams.answered(reading))

        channel.ask(consume, self._reads, self._refused)

    def _node(self) -> BrokerSite | None:
        return self.world.a_node(self._random)

    def _reads(self, reading: Reading) -> None:
        self._waits = ""
        self.reading = reading
        if reading.book.label != self._label:
            self._label, self._next = reading.book.label, None

    def _refused(self, error: BrokerError) -> None:
        self.world.watch.count(f"reader told: {type(error).__name__}")
        if isinstance(error, PreconditionFailed):
            self.has_no_member()
        self._is_wanted = not isinstance(error, NotFound)  # until the plan wants something to be read again
        if self._channel is not None:
            self._channel.lose(error.text)

    def has_no_member(self) -> None:
        """The node that was asked cannot read this stream."""

    def _leave(self) -> None:
        channel = self._channel
        if channel is None or not channel.is_open:
            return
        if not self._waits and self._random.random() < 0.5:
            tag = self._tag
            channel.say(lambda: channel.session.cancel(tag, channel.now))
            self.world.loop.call_later(0.01, channel.lose, "its client goes")
        else:
            channel.lose("its client goes")

    # What it is told

    def opened(self, channel: Channel) -> None:
        """It has asked for what it wants already."""

    def confirmed(self, channel: Channel, first: int, last: int, multiple: bool, ok: bool) -> None:
        raise AssertionError(f"{self.name} publishes nothing")

    def returned(self, channel: Channel, bodies: list[bytes]) -> None:
        raise AssertionError(f"{self.name} publishes nothing")

    def delivered(self, channel: Channel, deliveries: list[Given]) -> None:
        if channel is not self._channel or self.reading is None:
            return
        for given in deliveries:
            assert given.offset is not None, f"{self.name} is given a message without an offset"
            self.reading.book.told_of(given.offset)
            self._next = given.offset + 1
        self.world.served()
        thinks_s = 0.0 if self.is_in_a_hurry else self._random.choice(THINKS_S)
        self.world.loop.call_later(thinks_s, self._settle, channel, [one.tag for one in deliveries])

    def _settle(self, channel: Channel, tags: list[int]) -> None:
        """However it does so, it has room for as many others."""
        if channel is not self._channel:
            return
        if self.is_stalled:
            self.world.loop.call_later(0.5, self._settle, channel, tags)
            return
        first, last = tags[0], tags[-1]
        match self._random.choice(("acknowledge", "acknowledge", "nack", "reject")):
            case "acknowledge":
                channel.say(lambda: channel.session.acknowledge(first, last, False, channel.now))
            case "nack":
                for tag in tags:
                    requeue = self._random.random() < 0.5
                    channel.say(channel.session.nack, tag, False, requeue, channel.now)
            case _:
                for tag in tags:
                    channel.say(channel.session.reject, tag, self._random.random() < 0.5, channel.now)

    def cancelled(self, channel: Channel, tag: str) -> None:
        self.world.watch.count("stream reader cancelled by its node")
        channel.lose("its node cancelled it")

    def lost(self, channel: Channel, why: str) -> None:
        assert channel is self._channel, f"{channel.name} is not what {self.name} uses"
        queue, waited = self._queue, self._waits
        if self.reading is not None:
            self.reading.is_over = True
        self._channel = self.reading = None
        self._queue = self._waits = ""
        if self._is_gone or not self._is_wanted or (not waited and self._random.random() >= GOES_ON):
            return
        beginning = self._drawn_beginning(queue)
        if self._next is not None and self._label == self.world.streams.label_of_now(queue):
            beginning = Beginning("offset", self._next)
            self.world.watch.count("stream reader goes on at its offset")
        self.world.loop.call_later(self._random.uniform(*AGAIN_S), self._read, queue, beginning)

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


class LastReader(Reader):
    """In the end: reads all that a stream has, on one node. A node without a member is none that it could read on."""

    def __init__(self, world: BrokerWorld, number: int, site: BrokerSite) -> None:
        super().__init__(world, number)
        self.site = site
        self.is_without_member = False

    def begin(self, queue: str) -> None:
        self._read(queue, Beginning("first"))

    @property
    def is_done(self) -> bool:
        return self.is_without_member or (self.reading is not None and self.reading.is_at_end)

    def _node(self) -> BrokerSite | None:
        return self.site if self.site.serves_clients else None

    def has_no_member(self) -> None:
        self.is_without_member = self._is_gone = True
