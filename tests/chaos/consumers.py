"""Consumers that acknowledge, requeue and reject, leave now and then with messages in their hands, and go on elsewhere.

When may a client know that what it said of a delivery was committed? A consumer with a prefetch of P, which answers each
delivery once, has at most P open at any moment of the queue's own time. So when delivery number t arrives, the queue has taken
note of at least t - P answers. It does so in the order in which they were given, except within one turn of the node, and there
are at most P of these: hence the first t - 2P answers are committed for sure. A get that is answered shows that everything is
that was said before it. This holds for quorum queues, which decide from what is committed; a classic queue decides before its
disk does, so for these only the get at the end counts, when no fault follows. Whoever is cancelled by its node knows nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import random

from pamqp import commands

from tests.chaos.amqp import Arrived, Client, Gone, Refused, connect
from tests.chaos.cluster import Cluster
from tests.chaos.recorder import Recorder
from tests.chaos.topology import Queue

LOOK_S = 1.5  # a paused node says nothing: it is asked now and then
LOOK_WITHIN_S = 3.0
AGAIN_S = 0.1
LIFE_MESSAGES = (100, 600)  # after so many it leaves and comes again
THINK_S_MAX = 0.01


class Consumer:
    """Runs as a task until told to stop. Each connection is a consumer of its own in the history."""

    def __init__(self, queue: Queue, name: str, cluster: Cluster, recorder: Recorder, rng: random.Random) -> None:
        self.queue = queue
        self._name = name
        self._cluster = cluster
        self._recorder = recorder
        self._random = rng
        self._lives = 0
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """All is well now, and stays so."""
        self._stopping.set()

    async def run(self) -> None:
        nodes = self._cluster.in_turn(self._random)
        while not self._stopping.is_set():
            try:
                client = await connect(*next(nodes))
            except Gone:
                await asyncio.sleep(AGAIN_S)
                continue
            try:
                await self._consume(client)
            except (Gone, Refused):
                await asyncio.sleep(AGAIN_S)
            finally:
                client.abort()

    async def _consume(self, client: Client) -> None:
        self._lives += 1
        queue = self.queue
        name = f"{self._name}/{self._lives}"
        taker = Taker(client, queue, name, self._recorder, self._random)
        client.on_message = taker.take
        await client.call(commands.Basic.Qos(0, queue.habits.prefetch, False), "Basic.QosOk")
        await client.call(commands.Basic.Consume(queue=queue.name, consumer_tag=name), "Basic.ConsumeOk")
        leaves_after = self._random.randint(*LIFE_MESSAGES)
        try:
            while not self._stopping.is_set() and not taker.cancelled and taker.taken < leaves_after:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._stopping.wait()
                await client.call(
                    commands.Basic.Qos(0, queue.habits.prefetch, False), "Basic.QosOk", within_s=LOOK_WITHIN_S
                )
            if self._stopping.is_set() and not taker.cancelled:
                await taker.finish()
            elif self._random.random() < 0.5:
                await client.close()
        finally:
            taker.is_over = True
            self._recorder.leave(queue.name, name, queue.habits.prefetch)


class Taker:
    """What one consumer does with its deliveries, and what it knows about its answers."""

    def __init__(self, client: Client, queue: Queue, name: str, recorder: Recorder, rng: random.Random) -> None:
        self.taken = 0
        self.cancelled = False
        self.is_over = False
        self._client = client
        self._queue = queue
        self._name = name
        self._recorder = recorder
        self._random = rng
        self._answered: list[int] = []  # deliveries, in the order of our answers
        self._settled = 0  # of these
        self._thinking = 0
        client.on_cancelled = self._on_cancelled

    def take(self, message: Arrived) -> None:
        if self.is_over:
            return
        self.taken += 1
        delivery = self._recorder.deliver(
            self._queue.name, self._name, message.payload, message.redelivered, message.headers
        )
        if self._queue.is_quorum:
            self._note_settled(self.taken - 2 * self._queue.habits.prefetch)
        self._thinking += 1
        wait_s = self._random.uniform(0, THINK_S_MAX)
        asyncio.get_running_loop().call_later(wait_s, self._answer, delivery, message.tag)

    async def finish(self) -> None:
        """Answer what is open, take no more, and see that the queue has heard it."""
        await self._client.call(commands.Basic.Cancel(self._name), "Basic.CancelOk")
        await asyncio.sleep(2 * THINK_S_MAX)
        assert not self._thinking or self._client.ended.done(), (
            f"{self._name} still thinks of {self._thinking} messages"
        )
        await self._client.call(commands.Basic.Qos(0, self._queue.habits.prefetch, False), "Basic.QosOk")
        if self._queue.answers_gets:
            await self._get_one()
        await self._client.close()

    async def _get_one(self) -> None:
        answered = len(self._answered)
        got = await self._client.get(self._queue.name)
        if not self.cancelled:
            self._note_settled(answered)
        if got is not None:
            delivery = self._recorder.deliver(self._queue.name, self._name, got.payload, got.redelivered, got.headers)
            self._client.say(commands.Basic.Ack(got.tag))
            self._recorder.acknowledge(delivery)

    def _answer(self, delivery: int, tag: int) -> None:
        self._thinking -= 1
        if self._client.ended.done() or self.is_over:
            return
        habits = self._queue.habits
        drawn = self._random.random()
        if drawn < habits.requeues:
            self._recorder.requeue(delivery, is_failure=False)
            self._client.say(commands.Basic.Nack(tag, False, True))
        elif drawn < habits.requeues + habits.fails:
            self._recorder.requeue(delivery, is_failure=True)
            self._client.say(commands.Basic.Reject(tag, True))
        elif drawn < habits.requeues + habits.fails + habits.rejects:
            self._recorder.reject(delivery)
            self._client.say(commands.Basic.Nack(tag, False, False))
        else:
            self._recorder.acknowledge(delivery)
            self._client.say(commands.Basic.Ack(tag))
        self._answered.append(delivery)

    def _note_settled(self, count: int) -> None:
        for delivery in self._answered[self._settled : max(count, 0)]:
            self._recorder.settle(delivery)
        self._settled = max(self._settled, count)

    def _on_cancelled(self, consumer: str) -> None:
        self.cancelled = True
