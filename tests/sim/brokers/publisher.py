"""A publisher: messages with numbers, confirms, and what it does when an answer is lost.

To each queue, and to the exchange that leads to several, each connection is a publisher of its own, with numbers of its own, as
histories want it. What was not answered
when a connection is lost may be published again by the next one, on another node. A publisher that names itself (x-producer,
x-seq) says its own number of the message then, and the queue must store it once.

A body is `publisher/connection:number:own number:` and then as many bytes as it is to have.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, NamedTuple

from broker.errors import BrokerError
from broker.messages.message import LOOK_HEADERS, Run
from broker.session.session import Session
from native.content import encode
from tests.histories.records import Attempted, Confirmed, Refused
from tests.sim.brokers.channel import Channel, Given
from tests.sim.plan import Ask
from wire.amqp.tables import encode_properties

if TYPE_CHECKING:
    from tests.sim.brokers.world import BrokerWorld

AGAIN_S = (0.05, 0.6)
AGAIN_PER_S = 2000  # messages: who has thousands to send again does not do so several times a second
SIZES = (20, 300)  # of messages of one run: a limit of bytes lets some in and others not
PRIORITIES = (0, 4, 4, 4, 9)


class Message:
    """One message, however often it is sent."""

    __slots__ = ("expires_ms", "own", "persistent", "priority", "queue", "size")

    def __init__(
        self, queue: str, own: int, size: int, priority: int, expires_ms: int | None, *, persistent: bool
    ) -> None:
        self.queue = queue
        self.own = own
        self.size = size
        self.priority = priority
        self.expires_ms = expires_ms
        self.persistent = persistent

    @property
    def nature(self) -> tuple[object, ...]:
        """What messages that travel together have in common."""
        return self.queue, self.priority, self.expires_ms, self.persistent


class Sent(NamedTuple):
    """A message on its way: its bytes, and what they say of it."""

    message: Message
    body: bytes
    publisher: str
    number: int
    is_named: bool


class Publisher:
    """See the module. Fulfils channel.Owner."""

    may_be_named = True
    is_committed_at_once = True

    def __init__(self, world: BrokerWorld, number: int) -> None:
        self.world = world
        self.name = f"p{number}"
        self.is_named = self.may_be_named and number % 3 == 1  # deduplicated
        self.answered = 0
        self.unknown = 0
        self.is_done = False
        self._random = Random(f"{world.plan.seed} {self.name}")
        self._channel: Channel | None = None
        self._connections = 0
        self._own = 0
        self._next: dict[str, int] = {}  # number, by queue, on this connection
        self._waiting: list[Message] = []  # to be sent
        self._sent = 0  # on this connection
        self._is_ready = False  # confirms were asked for on this connection: nothing is sent before
        self._open: dict[int, Sent] = {}  # by number on the connection: not answered
        self._confirmed: dict[bytes, bool] = {}
        self._returned: dict[bytes, bool] = {}  # bodies that no queue was there for

    # The plan

    def ask(self, ask: Ask) -> None:
        for _ in range(self._random.choice((1, 1, 2, 5)) if ask.kind == "publish" else 20):
            self._own += 1
            random = self._random
            expires_ms = random.choice((200, 1000, 5000)) if random.random() < self.world.shape.expiring else None
            priority = random.choice(PRIORITIES) if self.world.shape.priorities else 4
            is_classic = self.world.is_classic(ask.key)
            transient = is_classic and random.random() < self.world.shape.transient
            size = random.choice((ask.size, *SIZES)) if is_classic else ask.size
            message = Message(ask.key, self._own, size, priority, expires_ms, persistent=not transient)
            self._waiting.append(message)
        self._go_on()

    def end(self) -> None:
        """Nothing new any more; what was not answered is given up with its connection."""
        self.is_done = True

    @property
    def waits_for(self) -> str:
        """What nobody has answered, in words."""
        if self._open:
            return f"{self.name}: {len(self._open)} messages"
        return f"{self.name}: a connection" if self._waiting else ""

    def _as(self, queue: str) -> str:
        """As whom it publishes to a queue on this connection."""
        return f"{self.name}.{queue}/{self._connections}"

    # Sending

    def _go_on(self) -> None:
        if self._channel is None:
            site = self.world.a_node(self._random)
            if site is None:
                self.world.loop.call_later(0.3, self._go_on)
                return
            self._connections += 1
            self._sent = 0
            self._is_ready = False
            self._next = {}
            name = f"{self.name}/{self._connections}"
            self._channel = Channel(self.world, self, site, name)
        elif self._is_ready:
            self._send()

    def opened(self, channel: Channel) -> None:
        self._is_ready = True
        channel.say(lambda: channel.session.publisher.select_confirms())
        self._send()

    def _send(self) -> None:
        channel = self._channel
        assert channel is not None, f"{self.name} has no channel"
        waiting, self._waiting = self._waiting, []
        while waiting:
            alike = [waiting.pop(0)]
            first = alike[0]
            is_named = self.is_named and self.world.may_be_named(first.queue)
            while waiting and not is_named and waiting[0].nature == first.nature:
                alike.append(waiting.pop(0))
            self._send_run(channel, alike)

    def _send_run(self, channel: Channel, alike: list[Message]) -> None:
        """Messages that travel together."""
        first, now = alike[0], self.world.loop.time()
        bodies, contents = [], []
        size = 0
        for message in alike:
            number = self._next[message.queue] = self._next.get(message.queue, 0) + 1
            publisher = self._as(message.queue)
            body = f"{publisher}:{number}:{message.own}:".encode()
            body += b"." * max(0, message.size - len(body))
            is_named = self.is_named and self.world.may_be_named(message.queue)
            headers = {"x-producer": self.name, "x-seq": message.own} if is_named else None
            props = encode_properties({"headers": headers} if headers else {})
            bodies.append(body)
            contents.append(encode(props, body))
            size += len(body)
            self._sent += 1
            self._open[self._sent] = Sent(message, body, publisher, number, is_named)
            expires_s = message.expires_ms / 1000 if message.expires_ms is not None else None
            self.world.record(Attempted(now, publisher, number, message.priority, expires_s, message.persistent))
            self.world.publishing(message.queue, body, is_committed=self.is_committed_at_once)
        run = Run(
            *self.world.address(first.queue),
            b"".join(contents),
            len(alike),
            size,
            persistent=first.persistent,
            mandatory=True,
            priority=first.priority,
            expiration_ms=first.expires_ms,
            look=LOOK_HEADERS if is_named else 0,
        )
        channel.say(self._publish, channel, run, first.queue, bodies)

    def _publish(self, channel: Channel, run: Run, queue: str, bodies: list[bytes]) -> None:
        session: Session = channel.session
        assert channel.process is not None, f"{channel.name} is connected to no node"
        self.world.routing(channel.process, queue, bodies)
        session.publisher.publish(run, channel.now)

    # What it is told

    def confirmed(self, channel: Channel, first: int, last: int, multiple: bool, ok: bool) -> None:
        numbers = [one for one in self._open if one <= last and (multiple or one >= first)]
        assert numbers, f"{channel.name} is answered for {first} to {last}, and nothing waits"
        now = self.world.loop.time()
        for sent in [self._open.pop(number) for number in numbers]:
            message, body = sent.message, sent.body
            self.answered += 1
            self.world.served()
            if ok and not self._was_returned(sent, now):
                stored = self.world.look_at_confirm(message.queue, body, self.name, message.own if sent.is_named else 0)
                self._confirm(stored, now)
            elif not ok:
                self.world.look_at_refusal(message.queue, body)
                self.world.record(Refused(now, sent.publisher, sent.number))

    def _was_returned(self, sent: Sent, now: float) -> bool:
        if sent.body not in self._returned:
            return False
        self.world.watch.count("message returned")
        self.world.record(Refused(now, sent.publisher, sent.number))
        return True

    def _confirm(self, stored: bytes, now: float) -> None:
        """What is confirmed is the message that was stored. It may be told twice, when the first time was lost."""
        if stored not in self._confirmed:
            self._confirmed[stored] = True
            publisher, number, _ = stored.split(b":", 2)
            self.world.record(Confirmed(now, publisher.decode(), int(number)))

    def returned(self, channel: Channel, bodies: list[bytes]) -> None:
        """The node does not know the queue yet, or not any more."""
        self._returned.update(dict.fromkeys(bodies, True))

    def delivered(self, channel: Channel, deliveries: list[Given]) -> None:
        raise AssertionError(f"{self.name} consumes nothing, and is given {len(deliveries)} messages")

    def cancelled(self, channel: Channel, tag: str) -> None:
        raise AssertionError(f"{self.name} consumes nothing, and {tag} is cancelled")

    def lost(self, channel: Channel, why: str) -> None:
        assert channel is self._channel, f"{channel.name} is not what {self.name} uses"
        self._channel = None
        unanswered = [sent.message for sent in self._open.values()]
        self._open.clear()
        self.unknown += len(unanswered)
        if unanswered and not self.is_done and (self.is_named or self._random.random() < 0.7):
            self.world.watch.count("publisher sends again")
            self._waiting = unanswered + self._waiting
        if self._waiting:
            again_s = self._random.uniform(*AGAIN_S) + len(self._waiting) / AGAIN_PER_S
            self.world.loop.call_later(again_s, self._reconnect)

    def _reconnect(self) -> None:
        if self._channel is None:
            self._go_on()

    def lose_connection(self) -> bool:
        """A fault."""
        if self._channel is None or not self._channel.is_open:
            return False
        self._channel.lose("its network")
        return True


def told(error: BrokerError) -> str:
    """In a word, for counting."""
    return type(error).__name__
