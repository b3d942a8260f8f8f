"""Clients that declare and delete the same few exchanges on all nodes while faults go on: the history of the catalog.

Declaring and deleting goes through the log of the catalog and must fit one order. A look (a passive declare) is answered by the
node from what it knows: it may be late, but it is never behind what its own connection was told before. So a look may take
effect at any moment since that.

What is declared differs each time (by its alternate exchange), so that an answer tells whose declaration stands.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator

from pamqp import commands

from tests.chaos.amqp import Client, Gone, Refused, connect
from tests.chaos.cluster import Cluster
from tests.chaos.recorder import Recorder
from tests.histories.names import Answer, NameCall, Verb

NAMES = ("chaos.a", "chaos.b", "chaos.c")
BETWEEN_S = (0.05, 0.25)
AGAIN_S = 0.2
NOT_FOUND, NOT_AS_DECLARED = 404, 406
CALLS_MAX = 60  # of one client: the search for an order grows with what is unknown


class NameClient:
    """Runs as a task until told to stop."""

    def __init__(
        self, name: str, values: Iterator[int], cluster: Cluster, recorder: Recorder, rng: random.Random
    ) -> None:
        self._name = name
        self._values = values
        self._cluster = cluster
        self._recorder = recorder
        self._random = rng
        self._stopping = False
        self._calls = 0
        self._knows_since = 0.0  # what a look is answered from is not older

    def stop(self) -> None:
        self._stopping = True

    async def run(self) -> None:
        nodes = self._cluster.in_turn(self._random)
        while not self._stopping and self._calls < CALLS_MAX:
            try:
                client = await connect(*next(nodes))
            except Gone:
                await asyncio.sleep(AGAIN_S)
                continue
            self._knows_since = 0.0
            try:
                while not self._stopping and self._calls < CALLS_MAX:
                    await self._call_something(client)
                    await asyncio.sleep(self._random.uniform(*BETWEEN_S))
            except (Gone, Refused):
                await asyncio.sleep(AGAIN_S)
            finally:
                client.abort()

    async def _call_something(self, client: Client) -> None:
        self._calls += 1
        verb = self._random.choices(list(Verb), (5, 3, 3))[0]
        call = NameCall(verb, self._random.choice(NAMES), self._name, self._recorder.now())
        if verb is Verb.LOOK:
            call.began = self._knows_since
        else:
            call.value = f"v{next(self._values)}" if verb is Verb.DECLARE else ""
            self._recorder.name_calls.append(call)
        try:
            call.answer = await self._made(client, call)
        except Refused as refused:
            call.answer = _told_by(refused, verb)
            if call.answer is None:
                raise
            raise Gone("the channel is closed with every refusal") from None
        finally:
            if call.answer is not None:
                call.ended = self._recorder.now()
                if verb is Verb.LOOK:
                    self._recorder.name_calls.append(call)
                else:
                    self._knows_since = call.began

    async def _made(self, client: Client, call: NameCall) -> Answer:
        match call.verb:
            case Verb.DECLARE:
                await client.call(
                    commands.Exchange.Declare(
                        exchange=call.name,
                        exchange_type="direct",
                        durable=True,
                        arguments={"alternate-exchange": call.value},
                    ),
                    "Exchange.DeclareOk",
                )
                return Answer.DONE
            case Verb.DELETE:
                await client.call(commands.Exchange.Delete(exchange=call.name), "Exchange.DeleteOk")
                return Answer.DONE
            case Verb.LOOK:
                await client.call(commands.Exchange.Declare(exchange=call.name, passive=True), "Exchange.DeclareOk")
                return Answer.PRESENT


def _told_by(refused: Refused, verb: Verb) -> Answer | None:
    """None: it may or may not have been done, as when the catalog has no majority."""
    if verb is Verb.LOOK and refused.code == NOT_FOUND:
        return Answer.ABSENT
    if verb is Verb.DECLARE and refused.code == NOT_AS_DECLARED:
        return Answer.OTHER
    return None


async def look_everywhere(cluster: Cluster, recorder: Recorder) -> list[str]:
    """When all is well and quiet, all nodes know the same exchanges; and what they know ends the history. What is wrong."""
    known: dict[str, frozenset[str]] = {}
    for node in cluster.names:
        exchanges = await cluster.ask(node, lambda connected: connected.topology.exchanges())
        known[node] = frozenset(exchange.name for exchange in exchanges if exchange.name in NAMES)
    if len(set(known.values())) > 1:
        return [f"nodes know different exchanges: { ({node: sorted(names) for node, names in known.items()}) }"]
    found = known[cluster.names[0]]
    for name in NAMES:
        answer = Answer.PRESENT if name in found else Answer.ABSENT
        began = recorder.now()
        recorder.name_calls.append(NameCall(Verb.LOOK, name, "everybody", began, began, answer=answer))
    return []


def name_clients(count: int, cluster: Cluster, recorder: Recorder, rng: random.Random) -> list[NameClient]:
    values = itertools.count(1)
    return [NameClient(f"namer{number}", values, cluster, recorder, rng) for number in range(1, count + 1)]
