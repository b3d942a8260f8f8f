"""A simulated cluster of three nodes with one classic queue, on node 1, that is converted while clients of all nodes use it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.catalog.commands.catalog_commands import DeclareQueue
from broker.catalog.commands.metadata_entry import METADATA_GROUP
from broker.catalog.mirrored_queues import as_converted
from broker.errors import BrokerError
from broker.messages.message import Run
from broker.pending import Pending, ignore
from broker.session.session import GotMessage, Session
from broker.session.topology import Declared
from native.content import encode
from node.conversion.conversion import Conversion
from raft.core.messages import node_of
from tests.sim.brokers.channel import Channel, Given
from tests.sim.brokers.conversions import told_by_its_clients
from tests.sim.brokers.ledger import Ledger
from tests.sim.brokers.numbered_clients import Client, NumberedTaker, NumberingPublisher
from tests.sim.brokers.plan import BrokerShape
from tests.sim.brokers.process import BrokerProcess
from tests.sim.brokers.site import BrokerSite
from tests.sim.brokers.world import BrokerWorld
from tests.sim.network import Trouble
from tests.sim.plan import Plan
from tests.sim.references import Reference

QUEUE = "old"
PREFETCH = 50
AGAIN_S = 0.3


class _World(BrokerWorld):
    def reference_of(self, group: int) -> Reference:
        reference = super().reference_of(group)
        return told_by_its_clients(reference) if isinstance(reference, Ledger) else reference


class Comer(Client):
    """Comes and goes as a consumer, and gets one message in between, all the time."""

    world: ConvertedWorld

    def __init__(self, world: ConvertedWorld, node: int) -> None:
        self.came = self.got = 0
        self.troubles: list[str] = []
        super().__init__(world, node)

    def opened(self, channel: Channel) -> None:
        self._come(channel)

    def _come(self, channel: Channel) -> None:
        if channel.is_lost or self.world.at_rest:
            return
        self.came += 1
        session, tag = channel.session, f"c{self.came}"

        def consume(now: int) -> Pending[str]:
            session.set_prefetch(1, False)
            return session.consume(QUEUE, tag, no_ack=False, exclusive=False, no_local=False, arguments={}, now=now)

        def refused(error: BrokerError) -> None:
            self.troubles.append(error.text)

        channel.ask(lambda _, now: consume(now), lambda _: self._get(channel, tag), refused)

    def _get(self, channel: Channel, tag: str) -> None:
        channel.say(lambda: channel.session.cancel(tag, channel.now))
        channel.ask(
            lambda session, now: session.get(QUEUE, False, now), lambda got: self._got(channel, got), self._failed
        )

    def _got(self, channel: Channel, got: GotMessage | None) -> None:
        if got is not None:
            self.delivered(channel, [channel.given(got)])
        self.world.sim.loop.call_later(0.004, self._come, channel)

    def _failed(self, error: BrokerError) -> None:
        self.troubles.append(error.text)

    def delivered(self, channel: Channel, deliveries: list[Given]) -> None:
        for given in deliveries:
            self.got += 1
            self.world.given[given.body] = self.world.given.get(given.body, 0) + 1
            channel.say(lambda tag=given.tag: channel.session.acknowledge(tag, tag, False, channel.now))  # type: ignore[misc]

    def lost(self, channel: Channel, why: str) -> None:
        self.troubles.append(why)


class Declarer(Client):
    """Declares the classic queue again and again."""

    world: ConvertedWorld

    def __init__(self, world: ConvertedWorld, node: int) -> None:
        self.declared = 0
        self.troubles: list[str] = []
        super().__init__(world, node)

    def opened(self, channel: Channel) -> None:
        if channel.is_lost or self.world.at_rest:
            return

        def declare(session: Session, now: int) -> Pending[Declared]:
            self.declared += 1
            return session.topology.declare_queue(
                QUEUE, passive=False, durable=True, exclusive=False, auto_delete=False, arguments={}, now=now
            )

        def again(_: object) -> None:
            self.world.sim.loop.call_later(0.002, self.opened, channel)

        channel.ask(declare, again, lambda error: self.troubles.append(error.text))


class ConvertedWorld:
    """See the module."""

    def __init__(self, seed: int, backlog: int, hold_s: float = 0.05) -> None:
        shape = BrokerShape(seconds=60.0, groups=0, queues="plain", publishers=0, takers=0)
        sim: BrokerWorld = _World(Plan(seed, shape, (), (), "brokers"))
        self.sim = sim
        self.queue = QUEUE
        self.pause_s = 0.01
        self.hold_s = hold_s
        self.at_rest = False
        self.consumers_come_and_go = False  # what is under way to one that has gone comes back behind others
        self.confirmed: dict[bytes, bool] = {}
        self.given: dict[bytes, int] = {}
        self.pauses: list[float] = []
        self._last: dict[tuple[int, bytes], bytes] = {}
        sim.form()
        self.do(lambda process: process.broker.submit(DeclareQueue("/", QUEUE, "classic", home="n1"), 0))
        self.until(lambda: all(map(self.knows, sim.sites)))
        self.fill(backlog)
        self.publishers = [NumberingPublisher(self, node) for node in sim.sites]
        self.takers = [NumberedTaker(self, node) for node in (1, 2)]

    def do(self, what: Callable[[BrokerProcess], object], node: int = 1) -> None:
        site = self.sim.sites[node]
        assert site.process is not None, f"node {node} is down"
        site.run(site.life, partial(what, site.process), ())

    def fill(self, count: int) -> None:
        """With what has been there for long."""

        def publish(process: BrokerProcess) -> None:
            found = process.broker.find_queue("/", QUEUE)
            assert found is not None
            for at in range(0, count, 50):
                bodies = [b"0:%06d:" % number for number in range(at, min(count, at + 50))]
                self.confirmed |= dict.fromkeys(bodies, True)
                content = b"".join(encode(b"\0\0", body) for body in bodies)
                run = Run("", QUEUE, content, len(bodies), sum(map(len, bodies)), persistent=True)
                found.kind.publish([found.queue], run, None, 0)

        self.do(publish)
        self.sim.loop.run_for(0.2)

    def convert(self, name: str = QUEUE) -> None:
        def begin(process: BrokerProcess) -> None:
            record = process.broker.catalog.queue("/", name)
            assert record is not None
            process.broker.submit(as_converted(process.broker.catalog, record), 0).then(ignore, ignore)

        self.do(begin)

    @property
    def conversion(self) -> Conversion | None:
        process = self.sim.sites[1].process
        return next(iter(process.kernel.conversions.running.values()), None) if process is not None else None

    def knows(self, node: int) -> bool:
        process = self.sim.sites[node].process
        return process is not None and process.broker.find_queue("/", QUEUE) is not None

    def kind_on(self, node: int, name: str = QUEUE) -> str:
        """As clients of this node find it."""
        process = self.sim.sites[node].process
        found = process.broker.find_queue("/", name) if process is not None else None
        return found.queue.record.kind if found is not None else ""

    def until(self, holds: Callable[[], object], within_s: float = 40.0, step_s: float = 0.002) -> None:
        end = self.sim.loop.time() + within_s
        while not holds():
            assert self.sim.loop.time() < end, f"not within {within_s:g} s"
            self.sim.loop.run_for(step_s)

    def kill(self, node: int, down_s: float = 0.5) -> None:
        site = self.sim.sites[node]
        site.end(power=False)
        self.sim.start_later(site, down_s)

    def lead_catalog(self, node: int) -> None:
        leader = self.sim.leader(METADATA_GROUP)
        assert leader is not None
        site, driver = leader
        if site.number != node:
            to = next(member for member in driver.core._s.membership.voters if node_of(member) == node)
            site.run(site.life, driver.transfer, (to, self.sim.loop.time()))
        self.until(lambda: (found := self.sim.leader(METADATA_GROUP)) is not None and found[0].number == node)

    def cut(self, node: int, other: int) -> None:
        """Nothing passes between the two."""
        self.sim.network.troubles.append(Trouble("cut", lambda a, b: {a, b} == {node, other}, loss=1.0))

    # what its clients ask and tell (NumberedQueue)

    def node_for(self, number: int) -> BrokerSite | None:
        site = self.sim.sites[number]
        return site if site.serves_clients else None

    def was_confirmed(self, body: bytes) -> None:
        self.confirmed[body] = True

    def acknowledging(self, body: bytes) -> None: ...

    def seen(self, number: int, given: Given) -> None:
        body, publisher = given.body, given.body.partition(b":")[0]
        assert given.redelivered or body not in self.given, f"{body!r} comes again, and its client is not told"
        self.given[body] = self.given.get(body, 0) + 1
        last = self._last.get((number, publisher), b"")
        if not given.redelivered and not self.consumers_come_and_go:
            assert body > last, f"{body!r} comes behind {last!r}"
            self._last[number, publisher] = body

    def judge(self) -> None:
        """Everybody comes to rest; then what was confirmed has been given to somebody."""
        self.at_rest = True
        self.until(lambda: not self.lost(), within_s=60.0, step_s=0.1)

    def lost(self) -> list[bytes]:
        return [body for body in self.confirmed if body not in self.given]
