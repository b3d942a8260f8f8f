"""Random clients and random misfortune: whatever happens, each confirmed message is settled once or is still there."""

from __future__ import annotations

from random import Random

import pytest

from broker.errors import BrokerError
from broker.queues.queue_type import Got, Outcome
from native.content import messages
from raft.driver import SnapshotRules
from raft.store.store_limits import StoreLimits
from tests.unit.quorum.clients import Clients, Publisher, Taker

SEEDS = range(15)
STEPS = 120
CHOICES = [
    "publish", "publish", "publish", "consume", "settle", "settle", "cancel", "sink", "trouble", "get", "members",
]  # fmt: skip
NODES = 4


class Run:
    """One seed's."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        tiny = StoreLimits(
            segment_entries_max=8, log_files_kept=0, entries_kept=0, memory_bytes_max=600, compaction_interval_ms=0
        )
        self.clients = Clients(
            NODES,
            seed=seed,
            rules=SnapshotRules(entries_max=self.random.choice([5, 40, 50_000])),
            limits=self.random.choice([tiny, StoreLimits()]),
        )
        self.cluster = self.clients.cluster
        self.record = self.cluster.declare("q", [1, 2, 3], home=self.random.randint(1, 3), **{"x-delivery-limit": -1})
        self.cluster.leader(self.record)
        self.publishers: list[Publisher] = []
        self.takers: list[Taker] = []
        self.acknowledged: list[bytes] = []
        self.seen_after_acknowledged: list[bytes] = []
        self.down: int | None = None
        self.names = 0
        self.taken: list[bytes] = []

    def step(self) -> None:
        random = self.random
        match random.choice(CHOICES):
            case "publish":
                self.publish()
            case "consume" if len(self.alive_takers()) < 5:
                self.takers.append(
                    Taker(
                        self.clients, self.a_node(), self.record,
                        settles=False, prefetch=random.choice([0, 1, 3, 20]), tag=f"c{len(self.takers)}",
                    )
                )  # fmt: skip
            case "settle":
                self.settle()
            case "cancel" if self.alive_takers():
                taker = random.choice(self.alive_takers())
                taker.cancel()
                taker.settle_all(Outcome.REQUEUED)
            case "sink" if self.alive_takers():
                taker = random.choice(self.alive_takers())
                taker.writable = not taker.writable
                self.clients.hosts[taker.node].wake(taker.queue)
            case "trouble":
                self.trouble()
            case "get":
                self.get()
            case "members":
                self.change_members()
            case _:
                pass
        self.cluster.run(random.choice([0.001, 0.005, 0.02, 0.1]))
        self.check()

    def a_node(self) -> int:
        return self.random.choice([node.number for node in self.cluster.alive()])

    def alive_takers(self) -> list[Taker]:
        return [taker for taker in self.takers if not taker.left]

    def publish(self) -> None:
        if len(self.publishers) < 3 or self.random.random() < 0.05:
            self.names += 1
            self.publishers.append(Publisher(self.clients, self.a_node(), self.record, name=f"p{self.names}-"))
        publisher = self.random.choice(self.publishers)
        if self.cluster.nodes[publisher.node].alive and not publisher.closed:
            publisher.publish(self.random.randint(1, 5))

    def settle(self) -> None:
        holding = [taker for taker in self.takers if taker.held and not taker.lost]
        if not holding:
            return
        taker = self.random.choice(holding)
        outcome = self.random.choice([Outcome.ACKNOWLEDGED, Outcome.ACKNOWLEDGED, Outcome.REQUEUED])
        if outcome is Outcome.ACKNOWLEDGED:
            self.acknowledged += taker.held_bodies()
        taker.settle_all(outcome)

    def get(self) -> None:
        """Taken and forgotten at once; what comes when its node has died was given to nobody."""
        node = self.cluster.nodes[self.a_node()]

        def taken(got: Got | None) -> None:
            if got is not None and node.alive:
                self.taken.append(messages(got.content, got.piece.position, 1)[0][1])

        def failed(error: BrokerError) -> None:
            if node.alive:
                raise error

        node.queue(self.record).get(True, self.clients.now).then(taken, failed)

    def change_members(self) -> None:
        node = self.cluster.nodes[self.a_node()]
        queue, administration = node.queue(self.record), node.kind.administration
        members = queue.member_nodes()
        some = self.random.randint(1, NODES)
        if some not in members:
            administration.add_member(queue, some).then(lambda _: None, lambda _: None)
        elif len(members) > 2:
            administration.remove_member(queue, some).then(lambda _: None, lambda _: None)

    def trouble(self) -> None:
        random, cluster = self.random, self.cluster
        match random.choice(["kill", "cut", "heal", "heal", "transfer"]):
            case "kill" if self.down is None:
                self.down = random.randint(1, NODES)
                self.lose_clients_of(self.down)
                cluster.nodes[self.down].kill()
            case "cut":
                one, other = random.sample(range(1, NODES + 1), 2)
                cluster.cut(one, other)
            case "transfer":
                node = cluster.nodes[self.a_node()]
                queue = node.queue(self.record)
                node.kind.administration.transfer(queue, random.randint(1, 3)).then(lambda _: None, lambda _: None)
            case "heal":
                self.heal()
            case _:
                pass

    def heal(self) -> None:
        if self.down is not None:
            number, self.down = self.down, None
            self.cluster.restart(number)
        self.cluster.heal()

    def lose_clients_of(self, node: int) -> None:
        for publisher in self.publishers:
            if publisher.node == node:
                publisher.closed = True
        for taker in self.takers:
            if taker.node == node:
                taker.left = taker.lost = True

    def check(self) -> None:
        for publisher in self.publishers:
            assert publisher.confirmed == sorted(publisher.confirmed, key=number_of), "confirms out of order"
            assert not publisher.refused

    def finish(self) -> None:
        self.heal()
        for taker in self.alive_takers():
            taker.cancel()
        self.cluster.run(8)
        for taker in self.takers:
            if not taker.lost:
                taker.settle_all(Outcome.REQUEUED)
        self.cluster.run(3)
        for publisher in self.publishers:
            if not publisher.closed:
                assert len(publisher.confirmed) == publisher.next, "a publisher waits for ever"
        left = self.clients.drain(self.a_node(), self.record)
        assert len(left) == len(set(left)), "a message is there twice"
        settled = set(self.acknowledged) | set(self.taken)
        kept_by_dead = {body for taker in self.takers if taker.lost for body in taker.acknowledged_before_death}
        confirmed = {body for publisher in self.publishers for body in publisher.confirmed}
        published = {body for publisher in self.publishers for body in publisher.all}
        assert confirmed <= set(left) | settled, f"lost: {sorted(confirmed - set(left) - settled)}"
        assert set(left) <= published
        assert not (set(left) & set(self.acknowledged)) - kept_by_dead, "settled, and there again"


def number_of(body: bytes) -> int:
    return int(body.rsplit(b"-", 1)[1])


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_or_doubled_whatever_happens(seed: int) -> None:
    run = Run(seed)
    for _ in range(STEPS):
        run.step()
    run.finish()
