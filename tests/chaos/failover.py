"""How long a client waits after a fault: it publishes one message after the other, each when the one before is confirmed.

    python -m tests.chaos failover --fault kill --times 100          kill -9 of the queue's leader
    python -m tests.chaos failover --fault pause --times 50          SIGSTOP of the queue's leader
    python -m tests.chaos failover --fault partition --times 50      the leader is cut off without a word (as root)
    python -m tests.chaos failover --fault restart --times 3         all three nodes, one after the other, in order

The publisher is connected to a node that survives. The time is from the fault to the confirm of the first message that was
published after it. With `restart` there is a publisher on each node, which goes on elsewhere when its node stops; what counts
is what it is told then: nothing may be refused, and no node may end a connection otherwise than by saying that it stops.
In the end the queue is drained: nothing may be lost, twice, or out of order. One line of JSON is printed; the exit code is
1 when something is wrong, or slower than its bar.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pamqp import commands

from tests.chaos import namespaces, processes
from tests.chaos.amqp import Arrived, Client, Gone, Refused, connect
from tests.chaos.backend import Backend, Can, Shape
from tests.chaos.cluster import Cluster
from tests.chaos.namespaces import Namespaces
from tests.chaos.processes import Processes
from tests.chaos.recorder import Recorder, payload
from tests.crash.power import end_by_exception
from tests.histories.judge import judge
from tests.histories.rules import QueueRules, Rules

QUEUE = "failover"
RULES = Rules((QueueRules(QUEUE, frozenset({"n1", "n2", "n3"})),))
ARGUMENTS: dict[str, Any] = {"x-queue-type": "quorum"}
BARS_MS = {"kill": (300, 1_000), "pause": (3_000, 3_000), "partition": (3_000, 3_000)}  # p50, p99
CONFIRM_WITHIN_S = 30.0
QUIET_S = 0.3  # between two faults, so that each hits a working group
HOLD_S = 0.5  # how long a paused or cut off leader stays so after the next confirm
BEFORE_AND_AFTER = 20  # confirms of each publisher around every restart
CONNECTION_FORCED = 320
UNAVAILABLE = 69


@dataclass(slots=True)
class Outcome:
    fault: str
    times: int = 0
    p50_ms: int = 0
    p99_ms: int = 0
    max_ms: int = 0
    bars_ms: tuple[int, int] = (0, 0)
    confirmed: int = 0
    reconnected: int = 0
    errors: list[str] = field(default_factory=list)  # that a client was told
    wrong: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        slow = self.bars_ms != (0, 0) and (self.p50_ms > self.bars_ms[0] or self.p99_ms > self.bars_ms[1])
        return not self.errors and not self.wrong and not slow


class Publisher:
    """One message at a time. What it was not told about, because its connection broke, it publishes again on the next one."""

    def __init__(self, node: str, cluster: Cluster, recorder: Recorder, outcome: Outcome) -> None:
        self.node = node
        self.count = 0
        self._cluster = cluster
        self._recorder = recorder
        self._outcome = outcome
        self._lives = 0
        self._client: Client | None = None
        self._answer: asyncio.Future[bool] | None = None

    async def publish(self) -> None:
        """Returns when a message is confirmed, on whichever node. Raises Gone when none takes it in time."""
        async with asyncio.timeout(CONFIRM_WITHIN_S):
            while not await self._publish_once():
                pass

    def close(self) -> None:
        if self._client is not None:
            self._client.abort()

    async def _publish_once(self) -> bool:
        client = self._client
        if client is None or client.ended.done():
            client = self._client = await self._connected()
        number, name = client.published + 1, f"{self.node}/{self._lives}"
        self._answer = asyncio.get_running_loop().create_future()
        self._recorder.attempt(name, number)
        client.publish("", QUEUE, payload(name, number), commands.Basic.Properties(delivery_mode=2))
        await asyncio.wait((self._answer, client.ended), return_when=asyncio.FIRST_COMPLETED)
        if not self._answer.done():
            self._note_end(client.ended.result())
            return False
        if not self._answer.result():
            self._recorder.refuse(name, number)
            self._outcome.errors.append(f"{name}:{number} was refused")
            return False
        self._recorder.confirm(name, number)
        self.count += 1
        return True

    async def _connected(self) -> Client:
        """To its own node if that lets it in, else to another."""
        self._lives += 1
        at = self._cluster.names.index(self.node)
        while True:
            for node in (*self._cluster.names[at:], *self._cluster.names[:at]):
                with contextlib.suppress(Gone, Refused):
                    client = await connect(self._cluster.backend.amqp(node), self._cluster.backend.credentials)
                    await client.call(commands.Confirm.Select(), "Confirm.SelectOk")
                    client.on_confirm = lambda tag, multiple, taken: self._heard(taken)
                    return client

    def _heard(self, taken: bool) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(taken)

    def _note_end(self, why: Exception) -> None:
        self._outcome.reconnected += 1
        if not (isinstance(why, Refused) and why.code == CONNECTION_FORCED):
            self._outcome.errors.append(f"the connection of {self.node}/{self._lives} ended with {why!r}")


class Rig:
    def __init__(self, cluster: Cluster, recorder: Recorder, outcome: Outcome) -> None:
        self.cluster = cluster
        self.backend: Backend = cluster.backend
        self.outcome = outcome
        self.publishers = {name: Publisher(name, cluster, recorder, outcome) for name in cluster.names}
        self.took_s: list[float] = []
        self._restarting = False

    async def hit_the_leader(self, times: int) -> None:
        for number in range(times):
            await self.cluster.until_well()
            leader = await self.cluster.leader_of(QUEUE)
            survivor = self.publishers[random.choice([name for name in self.cluster.names if name != leader])]
            await survivor.publish()
            await asyncio.sleep(QUIET_S)
            await survivor.publish()
            began = asyncio.get_running_loop().time()
            async with self._hit(leader):
                await survivor.publish()
                self.took_s.append(asyncio.get_running_loop().time() - began)
            print(f"{number + 1} of {times}: {self.took_s[-1] * 1000:.0f} ms", file=sys.stderr)
            self.publishers[leader].close()

    @contextlib.asynccontextmanager
    async def _hit(self, leader: str) -> AsyncIterator[None]:
        """Until the next confirm has come, and a little longer."""
        match self.outcome.fault:
            case "kill":
                await asyncio.to_thread(self.backend.kill, leader)
                yield
                await asyncio.to_thread(self.backend.start, leader)
            case "pause":
                self.backend.pause(leader)
                try:
                    yield
                    await asyncio.sleep(HOLD_S)
                finally:
                    self.backend.resume(leader)
            case _:
                await asyncio.to_thread(self.backend.isolate, leader)
                yield
                await asyncio.sleep(HOLD_S)
                await asyncio.to_thread(self.backend.mend)

    async def restart_all(self, times: int) -> None:
        for number in range(times):
            for name in self.cluster.names:
                await self.cluster.until_well()
                self._restarting = True
                work = asyncio.gather(*(self._publish_around(one) for one in self.publishers.values()))
                await self._all_reach(BEFORE_AND_AFTER)
                await asyncio.to_thread(self.backend.stop, name)
                await self._all_reach(BEFORE_AND_AFTER)
                await asyncio.to_thread(self.backend.start, name)
                await self._all_reach(BEFORE_AND_AFTER)
                self._restarting = False
                await work
            print(f"{number + 1} of {times}: {self.outcome.reconnected} reconnected", file=sys.stderr)

    async def _publish_around(self, publisher: Publisher) -> None:
        while self._restarting:
            await publisher.publish()

    async def _all_reach(self, more: int) -> None:
        wanted = {name: publisher.count + more for name, publisher in self.publishers.items()}
        await self.cluster.eventually(lambda: self._reached(wanted), "confirms during a restart")

    async def _reached(self, wanted: dict[str, int]) -> bool:
        return all(self.publishers[name].count >= count for name, count in wanted.items())

    async def drain(self, recorder: Recorder) -> None:
        client = await self._client(self.cluster.names[0])
        consumer = "drain"

        def take(message: Arrived) -> None:
            delivery = recorder.deliver(QUEUE, consumer, message.payload, message.redelivered, message.headers)
            recorder.acknowledge(delivery)
            client.say(commands.Basic.Ack(message.tag))

        client.on_message = take
        await client.call(commands.Basic.Qos(0, 200, False), "Basic.QosOk")
        await client.call(commands.Basic.Consume(queue=QUEUE, consumer_tag=consumer), "Basic.ConsumeOk")
        await self.cluster.eventually(self._is_empty, "an empty queue")
        await client.close()
        recorder.drain(QUEUE, self.cluster.names[0], 0)

    async def declare(self) -> None:
        client = await self._client(self.cluster.names[0])
        await client.call(commands.Queue.Declare(queue=QUEUE, durable=True, arguments=ARGUMENTS), "Queue.DeclareOk")
        await client.close()

    async def _is_empty(self) -> bool:
        found = await self.cluster.ask_anyone(lambda node: node.topology.queues())
        return all(not queue.ready and not queue.unacknowledged for queue in found)

    async def _client(self, node: str) -> Client:
        return await connect(self.backend.amqp(node), self.backend.credentials)


async def measure(backend: Backend, fault: str, times: int, scratch: Path) -> Outcome:
    recorder = Recorder(scratch)
    outcome = Outcome(fault, bars_ms=BARS_MS.get(fault, (0, 0)))
    try:
        await asyncio.to_thread(backend.begin)
        rig = Rig(Cluster(backend), recorder, outcome)
        await rig.cluster.until_well()
        await rig.declare()
        await (rig.restart_all(times) if fault == "restart" else rig.hit_the_leader(times))
        await rig.cluster.until_well()
        await rig.drain(recorder)
    finally:
        await asyncio.to_thread(backend.end)
    took = sorted(rig.took_s)
    outcome.times, outcome.confirmed = times, recorder.confirmed
    if took:
        outcome.p50_ms = round(took[len(took) // 2] * 1000)
        outcome.p99_ms = round(took[len(took) * 99 // 100] * 1000)
        outcome.max_ms = round(took[-1] * 1000)
    outcome.wrong += judge(recorder.history, RULES)
    return outcome


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos failover",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--fault", choices=(*BARS_MS, "restart"), default="kill")
    parser.add_argument("--times", type=int, default=100)
    given = parser.parse_args(arguments)
    needs = frozenset({Can.ISOLATE}) if given.fault == "partition" else frozenset[Can]()
    why_not = namespaces.unavailable(needs) if needs else processes.unavailable(needs)
    if why_not:
        print(f"nobody can be cut off: {why_not}", file=sys.stderr)
        return UNAVAILABLE
    end_by_exception()
    with tempfile.TemporaryDirectory(prefix="leveret-failover-") as scratch:
        kind = Namespaces if needs else Processes
        outcome = asyncio.run(measure(kind(Shape(), Path(scratch), needs), given.fault, given.times, Path(scratch)))
    print(json.dumps(asdict(outcome)))
    return 0 if outcome.is_good else 1
