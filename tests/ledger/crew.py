"""Clients that take turns as the single active consumer of a queue, and one that keeps what it has for too long.

A member of the crew subscribes while others do, so it waits; once it is given something it is the active one, and it goes away
in one of the ways there are: cancelled before or after it has settled what it holds, with its channel, without a word, and with
a quorum queue by not settling in time. What comes next is another member's. That this has happened is counted
(`Sightings.happened`): a run in which it never did has shown nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pamqp import commands

from tests.chaos.amqp import Arrived, Client, Gone
from tests.ledger.busy_client import BATCH_MAX, DELIVERED_WITHIN_S, BusyClient, Held, saw
from tests.ledger.sightings import Answer, ClientLife, Ended, Sightings

TIMEOUT_MS = 300
TIMED_OUT_WITHIN_S = 5.0  # a deadline is met by the next entry, and for that a leader may have to be elected first
TURN_WITHIN_S = 1.0  # that a member waits to become the active one
TOOK_OVER = "a waiting consumer became the active one"
TIMED_OUT = "a consumer was told that it was late"
HAS_TO_HAPPEN = {"classic": (TOOK_OVER,), "quorum": (TOOK_OVER, TIMED_OUT)}


def not_happened(kind: str, sightings: Sightings) -> list[str]:
    """A sentence for each thing that has to happen in a run of this kind, and never did."""
    return [f"{what}: never, in all seeds" for what in HAS_TO_HAPPEN[kind] if not sightings.happened[what]]


@dataclass(slots=True, eq=False)
class Turn:
    """One subscription to the queue of a crew. `others_had`: what others had been given when it began to wait."""

    life: ClientLife
    others_had: int
    taken: list[Held] = field(default_factory=list)
    ended: str = ""  # how, as far as its client did it

    @property
    def how_it_ended(self) -> str:
        return "its node was killed" if self.life.ended is Ended.KILLED else self.ended or "it did not end by itself"


class Crew:
    """Who has the turn, as clients see it."""

    def __init__(self, queue: str, timeout_ms: int | None, sightings: Sightings) -> None:
        """`timeout_ms`: of members that mean to be late; None: of this kind of queue nobody is ever late."""
        self.queue = queue
        self.timeout_ms = timeout_ms
        self.delivered = 0
        self._last: Turn | None = None
        self._sightings = sightings

    def note(self, turn: Turn) -> None:
        """It was given a message. The first one of a member that waited while others had some tells that it took over."""
        last, self._last = self._last, turn
        if last is not None and not turn.taken and self.delivered > turn.others_had:
            self._sightings.happened[TOOK_OVER] += 1
            self._sightings.happened[f"{TOOK_OVER}: before, {last.how_it_ended}"] += 1
        self.delivered += 1


class LatePart(BusyClient):
    """What those share that mean to be late."""

    async def _wait_until_late(self, tag: str, taken: list[Held]) -> None:
        """Hold all of it until the queue says that the oldest of it was taken back: what the client says of that one then has
        no effect. Of the others it may have been the same, or not yet."""
        await self._until(lambda: tag in self._cancelled, TIMED_OUT_WITHIN_S)
        if tag not in self._cancelled or self._client.ended.done():
            return
        self._sightings.happened[TIMED_OUT] += 1
        delivery, oldest = taken[0]
        oldest.is_overdue = True
        self._client.say(commands.Basic.Ack(delivery))
        self._settle(taken[1:])


class CrewMember(LatePart):
    """See the module."""

    def __init__(self, crew: Crew, *args: Any) -> None:
        super().__init__(*args)
        self._crew = crew
        self._steps = [self._take_turn]
        self._ways: list[Callable[[str, Turn], Awaitable[None]]] = [
            self._settle_and_cancel, self._cancel_and_settle, self._leave, self._vanish,
        ]  # fmt: skip
        if crew.timeout_ms is not None:
            self._ways.append(self._be_late)

    async def _take_turn(self) -> None:
        crew = self._crew
        await self._send("", crew.queue, (crew.queue,), self._random.randint(1, BATCH_MAX))
        way, prefetch = self._random.choice(self._ways), self._random.randint(1, BATCH_MAX)
        turn = Turn(self._life, crew.delivered)
        timeout_ms = crew.timeout_ms if way == self._be_late else None

        def take(message: Arrived) -> None:
            crew.note(turn)
            turn.taken.append(self._consumed(crew.queue, message))

        tag = await self._subscribe(crew.queue, prefetch, take, timeout_ms=timeout_ms)
        await self._until(lambda: bool(turn.taken), TURN_WITHIN_S)
        await self._until(lambda: len(turn.taken) >= prefetch, DELIVERED_WITHIN_S)
        await (way if turn.taken else self._settle_and_cancel)(tag, turn)
        await self._hear_as_consumer(crew.queue)

    async def _settle_and_cancel(self, tag: str, turn: Turn) -> None:
        self._settle(turn.taken)
        turn.ended = "the client cancelled it"
        await self._unsubscribe(tag)

    async def _cancel_and_settle(self, tag: str, turn: Turn) -> None:
        turn.ended = "the client cancelled it, and then settled"
        await self._unsubscribe(tag)
        self._settle(turn.taken)

    async def _leave(self, tag: str, turn: Turn) -> None:
        self._settle(turn.taken[1:])
        turn.ended = "the client closed its connection"
        await self._close()
        raise Gone("this client left while it consumed")

    async def _vanish(self, tag: str, turn: Turn) -> None:
        self._settle(turn.taken[1:])
        turn.ended = "the connection was lost"
        self._client.abort()
        raise Gone("this client vanished while it consumed")

    async def _be_late(self, tag: str, turn: Turn) -> None:
        turn.ended = "the client was late"
        await self._wait_until_late(tag, turn.taken)
        await self._unsubscribe(tag)

    async def _hear_as_consumer(self, queue: str) -> None:
        """A consumer that the queue has accepted tells that what was said before has been heard. There are no gets here."""
        taken: list[Held] = []
        tag = await self._subscribe(queue, 1, lambda message: taken.append(self._consumed(queue, message)))
        self._was_heard()
        await self._unsubscribe(tag)
        for delivery, seen in taken:
            self._say(delivery, seen, Answer.ACK)


class LateConsumer(LatePart):
    """It consumes from a queue whose consumers have to be quick, and holds what it is given."""

    def __init__(self, queue: str, *args: Any) -> None:
        super().__init__(*args)
        self._queue = queue
        self._steps = [self._be_late]

    async def _be_late(self) -> None:
        queue, taken = self._queue, list[Held]()
        await self._send("", queue, (queue,), self._random.randint(1, BATCH_MAX))
        prefetch = self._random.randint(1, BATCH_MAX)
        tag = await self._subscribe(queue, prefetch, lambda message: taken.append(self._consumed(queue, message)))
        await self._until(lambda: bool(taken), TURN_WITHIN_S)
        if taken:
            await self._wait_until_late(tag, taken)
        await self._unsubscribe(tag)
        await self._hear(queue)


async def drained(client: Client, life: ClientLife, queue: str, sightings: Sightings) -> int:
    """What a consumer is given and acknowledges until nothing more comes for a moment; how many that is."""
    taken, news = 0, asyncio.Event()

    def take(message: Arrived) -> None:
        nonlocal taken
        seen = saw(sightings, life, queue, message)
        seen.is_consumed = True
        sightings.answer(seen, Answer.ACK)
        client.say(commands.Basic.Ack(message.tag))
        taken += 1
        news.set()

    client.on_message = take
    await client.call(commands.Basic.Qos(0, BATCH_MAX, False), "Basic.QosOk")
    await client.call(commands.Basic.Consume(queue=queue, consumer_tag="last"), "Basic.ConsumeOk")
    with suppress(TimeoutError):
        while True:
            async with asyncio.timeout(DELIVERED_WITHIN_S):
                await news.wait()
            news.clear()
    await client.call(commands.Basic.Cancel("last"), "Basic.CancelOk")
    return taken
