"""Publishers with confirms, that go on elsewhere when their node does not answer, and never send a message twice."""

from __future__ import annotations

import asyncio
import random

from pamqp import commands

from tests.chaos.amqp import Client, Gone, Refused, connect
from tests.chaos.cluster import Cluster
from tests.chaos.recorder import Recorder, identity, payload
from tests.chaos.topology import Route

WINDOW = 24  # unconfirmed at once
BURST_MAX = 6
BETWEEN_BURSTS_S = 0.04
AFTER_REFUSAL_S = 0.3
PATIENCE_S = 4.0  # for a confirm, before it goes elsewhere
ANSWERED_WITHIN_S = 20.0  # once all is well
PERSISTENT = 2


class Publisher:
    """Runs as a task until told to stop. Each connection is a publisher of its own in the history: `seller/3`."""

    def __init__(self, route: Route, cluster: Cluster, recorder: Recorder, rng: random.Random) -> None:
        self.route = route
        self.confirmed = 0
        self.wrong: list[str] = []
        self._cluster = cluster
        self._recorder = recorder
        self._random = rng
        self._lives = 0
        self._stopping = False

    def stop(self) -> None:
        """All is well now: what is open must be answered."""
        self._stopping = True

    async def run(self) -> None:
        nodes = self._cluster.in_turn(self._random)
        while not self._stopping:
            try:
                client = await connect(*next(nodes))
            except Gone:
                await asyncio.sleep(BETWEEN_BURSTS_S)
                continue
            try:
                await self._publish(client)
            except (Gone, Refused):
                pass  # what is open stays so: nobody knows what became of it
            finally:
                client.abort()

    async def _publish(self, client: Client) -> None:
        self._lives += 1
        life = _Life(f"{self.route.name}/{self._lives}", self)
        client.on_confirm = life.answered
        client.on_returned = life.returned
        await client.call(commands.Confirm.Select(), "Confirm.SelectOk")
        while not self._stopping and not client.ended.done() and not life.is_stuck(PATIENCE_S):
            if len(life.open) < WINDOW:
                for _ in range(self._random.randint(1, BURST_MAX)):
                    life.publish(client)
            await asyncio.sleep(self._random.uniform(0, 2 * BETWEEN_BURSTS_S) + life.penalty_s())
        while self._stopping and life.open and not client.ended.done():
            if life.is_stuck(ANSWERED_WITHIN_S):
                self.wrong.append(
                    f"{life.name}: {len(life.open)} publishes were not answered in {ANSWERED_WITHIN_S:g} s"
                )
                return
            await asyncio.sleep(BETWEEN_BURSTS_S)

    def note_confirm(self, publisher: str, number: int, taken: bool) -> None:
        if taken:
            self.confirmed += 1
            self._recorder.confirm(publisher, number)
        else:
            self._recorder.refuse(publisher, number)

    def note_attempt(self, publisher: str, number: int) -> tuple[int, bytes]:
        priority = self._random.randrange(self.route.priorities)
        self._recorder.attempt(publisher, number, priority)
        return priority, payload(publisher, number)


class _Life:
    """One connection. Tags and numbers are the same: both count from 1."""

    def __init__(self, name: str, publisher: Publisher) -> None:
        self.name = name
        self.open: dict[int, float] = {}
        self._publisher = publisher
        self._returned: set[int] = set()
        self._refused = False

    def penalty_s(self) -> float:
        """Who was refused waits a little before it tries again."""
        self._refused, refused = False, self._refused
        return AFTER_REFUSAL_S if refused else 0.0

    def is_stuck(self, patience_s: float) -> bool:
        now = asyncio.get_running_loop().time()
        return bool(self.open) and next(iter(self.open.values())) + patience_s < now

    def publish(self, client: Client) -> None:
        number = client.published + 1
        priority, body = self._publisher.note_attempt(self.name, number)
        route = self._publisher.route
        properties = commands.Basic.Properties(
            delivery_mode=PERSISTENT, priority=priority if route.priorities > 1 else None
        )
        self.open[number] = asyncio.get_running_loop().time()
        client.publish(route.exchange, route.key, body, properties)

    def returned(self, body: bytes) -> None:
        """No queue took it: the confirm that follows promises nothing."""
        self._returned.add(identity(body)[1])

    def answered(self, tag: int, multiple: bool, taken: bool) -> None:
        for number in [one for one in self.open if one <= tag] if multiple else [tag]:
            del self.open[number]
            self._refused |= not taken
            self._publisher.note_confirm(self.name, number, taken and number not in self._returned)
