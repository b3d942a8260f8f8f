"""All clients of a run: started together, told to stop when all is well again, and what is left drained on every node."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from functools import partial

from pamqp import commands

from tests.chaos import topology
from tests.chaos.amqp import Arrived, Client, Gone, Refused, connect
from tests.chaos.cluster import Cluster, NotWell
from tests.chaos.consumers import Consumer
from tests.chaos.name_clients import look_everywhere, name_clients
from tests.chaos.publishers import ANSWERED_WITHIN_S, Publisher
from tests.chaos.recorder import Recorder
from tests.chaos.topology import QUEUES, ROUTES, Queue

NAME_CLIENTS = 3
STOPPED_WITHIN_S = ANSWERED_WITHIN_S + 15.0
CONFIRMS_AGAIN = 10  # of each publisher, when all is well
CONFIRMS_WITHIN_S = 20.0
DRAINED_WITHIN_S = 40.0
QUIET_S = 1.0
LOOK_S = 0.1
PREFETCH = 50


class Workload:
    def __init__(self, cluster: Cluster, recorder: Recorder, rng: random.Random) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._publishers = [Publisher(route, cluster, recorder, rng) for route in ROUTES]
        self._consumers = [
            Consumer(queue, f"{queue.name}.c{number}", cluster, recorder, rng)
            for queue in QUEUES
            for number in range(queue.habits.consumers)
        ]
        self._namers = name_clients(NAME_CLIENTS, cluster, recorder, rng)
        self._tasks: list[asyncio.Task[None]] = []

    async def declare(self) -> None:
        """On the first node, and wait until all know it."""
        client = await self._client(self._cluster.names[0])
        await topology.declare(client)
        await client.close()
        wanted = {queue.name for queue in QUEUES}
        for node in self._cluster.names:
            await self._cluster.eventually(partial(self._knows, node, wanted), f"{node} knowing all queues")

    def start(self) -> None:
        works = [publisher.run() for publisher in self._publishers]
        works += [consumer.run() for consumer in self._consumers]
        works += [namer.run() for namer in self._namers]
        self._tasks = [asyncio.create_task(work) for work in works]

    async def until_confirming(self) -> list[str]:
        """Each publisher gets some more confirms. What is wrong."""
        wanted = {publisher: publisher.confirmed + CONFIRMS_AGAIN for publisher in self._publishers}
        until = self._recorder.now() + CONFIRMS_WITHIN_S
        while waiting := [one.route.name for one in self._publishers if one.confirmed < wanted[one]]:
            self._raise_what_failed()
            if self._recorder.now() > until:
                return [f"all is well, and within {CONFIRMS_WITHIN_S:g} s no confirms came for {', '.join(waiting)}"]
            await asyncio.sleep(LOOK_S)
        return []

    async def stop(self) -> list[str]:
        """All clients, when all is well: who published hears what became of it. What is wrong."""
        for publisher in self._publishers:
            publisher.stop()
        for namer in self._namers:
            namer.stop()
        await self._wait_for(self._tasks[: len(self._publishers)])
        for consumer in self._consumers:
            consumer.stop()
        wrong = await self._wait_for(self._tasks)
        self._raise_what_failed()
        return wrong + [what for publisher in self._publishers for what in publisher.wrong]

    async def drain(self) -> list[str]:
        """Take everything on all nodes at once until nothing comes; then ask each node again. What is wrong."""
        drainer = Drainer(self._cluster, self._recorder)
        try:
            await drainer.run()
        except (Gone, Refused, NotWell) as error:
            return [f"draining failed: {error!r}"]
        return await look_everywhere(self._cluster, self._recorder)

    def abandon(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _wait_for(self, tasks: Sequence[asyncio.Task[None]]) -> list[str]:
        if not tasks:
            return []
        _, pending = await asyncio.wait(tasks, timeout=STOPPED_WITHIN_S)
        return [f"{len(pending)} clients did not come to an end within {STOPPED_WITHIN_S:g} s"] if pending else []

    def _raise_what_failed(self) -> None:
        for task in self._tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _knows(self, node: str, wanted: set[str]) -> bool:
        queues = await self._cluster.ask(node, lambda connected: connected.topology.queues())
        return wanted <= {queue.name for queue in queues}

    async def _client(self, node: str) -> Client:
        return await connect(self._cluster.backend.amqp(node), self._cluster.backend.credentials)


class Drainer:
    """A consumer of each queue on each node, that takes all there is."""

    def __init__(self, cluster: Cluster, recorder: Recorder) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._last = recorder.now()

    async def run(self) -> None:
        clients = [await self._consume(node, queue) for node in self._cluster.names for queue in QUEUES]
        try:
            await self._until_quiet(clients)
        finally:
            for client in clients:
                await client.close()
        for node in self._cluster.names:
            await self._ask_again(node)

    async def _consume(self, node: str, queue: Queue) -> Client:
        client = await connect(self._cluster.backend.amqp(node), self._cluster.backend.credentials)
        name = f"{queue.name}.drain.{node}"

        def take(message: Arrived) -> None:
            self._last = self._recorder.now()
            self._take(client, queue, name, message)

        client.on_message = take
        await client.call(commands.Basic.Qos(0, PREFETCH, False), "Basic.QosOk")
        await client.call(commands.Basic.Consume(queue=queue.name, consumer_tag=name), "Basic.ConsumeOk")
        return client

    def _take(self, client: Client, queue: Queue, name: str, message: Arrived) -> None:
        delivery = self._recorder.deliver(queue.name, name, message.payload, message.redelivered, message.headers)
        self._recorder.acknowledge(delivery)
        client.say(commands.Basic.Ack(message.tag))

    async def _until_quiet(self, clients: Sequence[Client]) -> None:
        """No message came for a while, and no node says that there is one."""
        self._last = self._recorder.now()
        until = self._last + DRAINED_WITHIN_S
        while (now := self._recorder.now()) < until:
            if now > self._last + QUIET_S:
                if not await self._left():
                    return
                self._last = self._recorder.now()
            await asyncio.sleep(LOOK_S)
            for client in clients:
                if client.ended.done():
                    raise client.ended.result()

    async def _left(self) -> int:
        left = 0
        for node in self._cluster.names:
            queues = await self._cluster.ask(node, lambda connected: connected.topology.queues())
            left += sum(queue.ready + queue.unacknowledged for queue in queues)
        return left

    async def _ask_again(self, node: str) -> None:
        """Each node serves each queue: a get there finds nothing, and the count is zero."""
        client = await connect(self._cluster.backend.amqp(node), self._cluster.backend.credentials)
        for queue in QUEUES:
            while queue.answers_gets and (got := await client.get(queue.name)) is not None:
                self._take(client, queue, f"{queue.name}.get.{node}", got)
            counted = await client.call(commands.Queue.Declare(queue=queue.name, passive=True), "Queue.DeclareOk")
            self._recorder.drain(queue.name, node, counted.message_count)
        await client.close()
