"""One application: it publishes, gets, consumes and settles on one node of a cluster, and goes on at another when that is lost.

What it does is drawn; when it does it is left to the machine, so a seed draws the same questions and not the same answers. It
writes down what it saw and how sure it is (sightings.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

from pamqp import commands

from tests.chaos.amqp import Arrived, Gone, Refused, connect
from tests.chaos.backend import Address
from tests.ledger.sightings import Answer, ClientLife, Ended, Publication, Sighting, Sightings

AGAIN_S = 0.05
THINK_S_MAX = 0.06  # between two steps
CONFIRMED_WITHIN_S = 5.0
DELIVERED_WITHIN_S = 0.1
BATCH_MAX = 5
STEPS_MAX = 12  # before it leaves, and comes again at another node
SETTLED_AS = (
    Answer.ACK, Answer.ACK, Answer.ACK, Answer.NACK, Answer.REQUEUE, Answer.REJECT, Answer.NONE,
)  # fmt: skip
PERSISTENT = 2
CREDENTIALS = ("guest", "guest")

Held = tuple[int, Sighting]  # delivery tag


class Topology(NamedTuple):
    """The names of one seed's queues, by what they are for."""

    fed: tuple[str, ...]  # that clients publish to by name
    taken: tuple[str, ...]  # that clients take messages from, and acknowledge them
    loose: str  # that clients take messages from without acknowledging
    purged: str
    fan: str
    fanned: tuple[str, ...]


class BusyClient:
    """See the module. Runs as a task until told to stop."""

    steps: int  # that came to their end

    def __init__(
        self, name: str, topology: Topology, addresses: dict[str, Address], sightings: Sightings, random: Random
    ) -> None:
        self.steps = 0
        self.is_stopping = False
        self._name = name
        self._topology = topology
        self._addresses = addresses
        self._sightings = sightings
        self._random = random
        self._bodies = self._lives = 0
        self._open: dict[int, Publication] = {}  # by the number of its confirm
        self._said: list[Sighting] = []  # that were answered, and the queue may not have heard it
        self._subscriptions = 0
        self._cancelled: set[str] = set()  # tags of consumers that their queue has ended
        self._steps: list[Callable[[], Awaitable[None]]] = [
            self._publish, self._publish, self._publish, self._fan_out, self._get, self._get, self._consume, self._consume,
            self._get_without_ack, self._consume_without_ack, self._purge,
        ]  # fmt: skip

    def waits_for_a_confirm_of(self, node: str) -> bool:
        return bool(self._open) and self._life.node == node and self._life.ended is Ended.NOT

    async def run(self) -> None:
        nodes = self._nodes()
        while not self.is_stopping:
            node, name = next(nodes), f"{self._name}.{self._lives}"
            self._lives += 1
            try:
                self._client = await connect(self._addresses[node], CREDENTIALS, name=name)
            except Gone:
                await asyncio.sleep(AGAIN_S)
                continue
            await self._work(self._sightings.connected(node, name))

    def _nodes(self) -> Iterator[str]:
        names = sorted(self._addresses)
        at = self._random.randrange(len(names))
        while True:
            yield names[at % len(names)]
            at += 1

    async def _work(self, life: ClientLife) -> None:
        self._life = life
        self._open = {}
        self._said = []
        self._news = asyncio.Event()  # something came, or nothing will
        self._client.ended.add_done_callback(lambda _: self._news.set())
        self._client.on_confirm = self._confirmed
        self._client.on_returned = self._returned
        self._client.on_cancelled = self._was_cancelled
        try:
            await self._client.call(commands.Confirm.Select(), "Confirm.SelectOk")
            for _ in range(self._random.randint(1, STEPS_MAX)):
                if self.is_stopping:
                    break
                await self._random.choice(self._steps)()
                life.heard()
                self.steps += 1
                await asyncio.sleep(self._random.uniform(0, THINK_S_MAX))
            if self._random.random() < 0.5:
                await self._close()
        except Refused:
            self._sightings.end(life, Ended.REFUSED)
            await asyncio.sleep(AGAIN_S)
        except Gone:
            pass
        finally:
            self._sightings.end(life, Ended.BROKEN)
            self._client.abort()

    async def _close(self) -> None:
        self._life.is_leaving = True
        await self._client.close()
        self._sightings.end(self._life, Ended.LEFT)

    # publishing

    async def _publish(self) -> None:
        queue = self._random.choice(self._topology.fed)
        await self._send("", queue, (queue,), self._random.randint(1, BATCH_MAX))

    async def _fan_out(self) -> None:
        await self._send(self._topology.fan, "", self._topology.fanned, self._random.randint(1, BATCH_MAX))

    async def _send(self, exchange: str, key: str, queues: tuple[str, ...], count: int) -> None:
        properties = commands.Basic.Properties(delivery_mode=PERSISTENT)
        for _ in range(count):
            self._bodies += 1
            body = f"{self._name}.{self._bodies}"
            publication = self._sightings.publish(self._life, body, queues)
            self._open[self._client.publish(exchange, key, body.encode(), properties)] = publication
        await self._until(lambda: not self._open, CONFIRMED_WITHIN_S)

    async def _until(self, holds: Callable[[], bool], within_s: float) -> None:
        """Or until the connection ends, or time is up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not holds() and not self._client.ended.done():
                    self._news.clear()
                    await self._news.wait()

    def _confirmed(self, tag: int, multiple: bool, taken: bool) -> None:
        self._news.set()
        for number in [one for one in self._open if one <= tag] if multiple else [tag]:
            publication = self._open.pop(number)
            if taken:
                publication.confirmed_at = self._sightings.now()

    def _returned(self, payload: bytes) -> None:
        self._sightings.published[payload.decode()].is_returned = True

    # taking

    async def _get(self) -> None:
        queue = self._random.choice(self._topology.taken)
        self._life.taking.add(queue)
        for _ in range(self._random.randint(1, BATCH_MAX)):
            got = await self._client.get(queue)
            if got is None:
                break
            self._settle([self._saw(queue, got)])
        await self._hear(queue)

    async def _consume(self) -> None:
        queue, prefetch = self._random.choice(self._topology.taken), self._random.randint(1, BATCH_MAX)
        self._settle(await self._delivered(queue, prefetch))
        await self._hear(queue)

    async def _get_without_ack(self) -> None:
        self._life.taking.add(self._topology.loose)
        got = await self._client.get(self._topology.loose, no_ack=True)
        if got is not None:
            self._sightings.answer(self._saw(self._topology.loose, got)[1], Answer.GOT)

    async def _consume_without_ack(self) -> None:
        await self._delivered(self._topology.loose, BATCH_MAX, no_ack=True)
        await self._get_without_ack()  # whose answer tells that the queue has heard of the cancel

    async def _delivered(self, queue: str, prefetch: int, *, no_ack: bool = False) -> list[Held]:
        """What comes to a consumer until it has a prefetch of them, or some time is over, and it is cancelled."""
        taken: list[Held] = []

        def take(message: Arrived) -> None:
            taken.append(self._consumed(queue, message))
            if no_ack:
                self._sightings.answer(taken[-1][1], Answer.NO_ACK)

        tag = await self._subscribe(queue, prefetch, take, no_ack=no_ack)
        await self._until(lambda: len(taken) >= prefetch, DELIVERED_WITHIN_S)
        await self._unsubscribe(tag)
        return taken

    async def _subscribe(
        self,
        queue: str,
        prefetch: int,
        take: Callable[[Arrived], None],
        *,
        no_ack: bool = False,
        timeout_ms: int | None = None,
    ) -> str:
        """Its tag. What comes is given to `take`. `timeout_ms`: of this consumer; None: as the queue has it."""
        self._life.taking.add(queue)
        self._client.on_message = take
        self._subscriptions += 1
        tag = f"{self._name}.{self._subscriptions}"
        arguments: dict[str, Any] = {} if timeout_ms is None else {"x-consumer-timeout": timeout_ms}
        consume = commands.Basic.Consume(queue=queue, consumer_tag=tag, no_ack=no_ack, arguments=arguments)
        await self._client.call(commands.Basic.Qos(0, prefetch, False), "Basic.QosOk")
        await self._client.call(consume, "Basic.ConsumeOk")
        return tag

    async def _unsubscribe(self, tag: str) -> None:
        await self._client.call(commands.Basic.Cancel(tag), "Basic.CancelOk")

    def _consumed(self, queue: str, message: Arrived) -> Held:
        tag, seen = self._saw(queue, message)
        seen.is_consumed = True
        self._news.set()
        return tag, seen

    def _was_cancelled(self, tag: str) -> None:
        self._cancelled.add(tag)
        self._news.set()

    def _saw(self, queue: str, message: Arrived) -> Held:
        return message.tag, saw(self._sightings, self._life, queue, message)

    def _settle(self, taken: list[Held]) -> None:
        for tag, seen in taken:
            self._say(tag, seen, self._random.choice(SETTLED_AS))

    def _say(self, tag: int, seen: Sighting, answer: Answer) -> None:
        if self._client.ended.done() or answer is Answer.NONE:
            return
        self._sightings.answer(seen, answer)
        self._said.append(seen)
        if answer is Answer.ACK:
            self._client.say(commands.Basic.Ack(tag))
        elif answer is Answer.NACK:
            self._client.say(commands.Basic.Nack(tag, False, True))
        else:
            self._client.say(commands.Basic.Reject(tag, answer is Answer.REQUEUE))

    async def _hear(self, queue: str) -> None:
        """A get that is answered tells that what was said before has been heard."""
        got = await self._client.get(queue)
        self._was_heard()
        if got is not None:
            self._say(*self._saw(queue, got), Answer.ACK)

    def _was_heard(self) -> None:
        for seen in self._said:
            seen.is_heard = True
        self._said = []

    async def _purge(self) -> None:
        purging = self._sightings.purge(self._topology.purged)
        await self._client.call(commands.Queue.Purge(queue=self._topology.purged), "Queue.PurgeOk")
        purging.ended_at = self._sightings.now()


def saw(sightings: Sightings, life: ClientLife, queue: str, message: Arrived) -> Sighting:
    deaths = tuple((str(one["queue"]), str(one["reason"])) for one in message.headers.get("x-death", ()))
    return sightings.deliver(life, queue, message.payload.decode(), deaths, is_redelivered=message.redelivered)
