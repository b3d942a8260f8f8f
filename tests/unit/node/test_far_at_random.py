"""A classic queue used from another node, while links break, letters are held up and clients come and go: what was confirmed is
there or was acknowledged, nothing is there twice, and who gets a message that somebody has seen is told so."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from broker.errors import NotFound
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Got, Outcome, Slice
from tests.contract.far_kind import HERE, HOME
from tests.contract.world import bodies_of, part
from tests.unit.node.test_remote_queues import Far

SEEDS = 150
STEPS = 80
CONSUMERS_MAX = 3


@dataclass
class Client:
    """One consumer, and what it holds. Fulfils DeliverySink."""

    run: Run
    no_ack: bool
    writable: bool = True
    gone: bool = False
    held: list[tuple[int, Slice]] = field(default_factory=list)

    def deliver(self, consumer: Consumer, piece: Slice, content: bytes) -> None:
        assert self.writable and not self.gone, "a delivery to a client that cannot take it"
        assert not consumer.prefetch or consumer.no_ack or consumer.outstanding <= consumer.prefetch
        for offset, body in enumerate(bodies_of(piece, content)):
            self.run.seen_by_client(int(body), piece.redelivered)
            if self.no_ack:
                self.run.acknowledged[int(body)] = self.run.links
            else:
                self.held.append((int(body), part(piece, offset, 1)))

    def consumer_cancelled(self, consumer: Consumer) -> None:
        self.gone = True


class Run:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.far = Far()
        self.queue = self.far.queue()
        self.numbers: dict[int, int] = {}  # by tag of the confirm
        self.published = 0
        self.links = 0  # how many there were
        self.seen: set[int] = set()
        self.acknowledged: dict[int, int] = {}  # which link was there when it was
        self.heard_until = 0  # of the acknowledgements, those by links from here on may not have arrived
        self.consumers: list[tuple[Consumer, Client]] = []
        self.linked = True

    def seen_by_client(self, number: int, redelivered: bool) -> None:
        assert redelivered or number not in self.seen, f"{number} was seen before, and its next client is not told"
        self.seen.add(number)

    # steps

    def publish(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            count = self.random.randint(1, 4)
            bodies = [b"%d" % (self.published + offset) for offset in range(count)]
            tags = self.far.publish(self.queue, *bodies, confirm=True)
            self.numbers.update(zip(tags, range(self.published, self.published + count), strict=True))
            self.published += count

    def consume(self) -> None:
        if len(self.consumers) == CONSUMERS_MAX:
            return
        client = Client(self, self.random.random() < 0.2, self.random.random() < 0.8)
        prefetch = self.random.choice([0, 1, 3])
        consumer = Consumer("c", self.queue, client, no_ack=client.no_ack, prefetch=prefetch)
        try:
            consuming = self.queue.consume(consumer, self.far.now)
        except NotFound:
            return
        self.consumers.append((consumer, client))

        def refused(_: object) -> None:
            client.gone = True

        assert consuming is not None
        consuming.then(lambda _: None, refused)

    def settle(self) -> None:
        for consumer, client in self.consumers:
            count = self.random.randint(0, len(client.held))
            for number, piece in client.held[:count]:
                outcome = self.random.choice([Outcome.ACKNOWLEDGED, Outcome.ACKNOWLEDGED, Outcome.REQUEUED])
                if outcome is Outcome.ACKNOWLEDGED:
                    self.acknowledged[number] = self.links
                self.far.settle(consumer, piece, outcome)
            del client.held[:count]

    def leave(self) -> None:
        if not self.consumers:
            return
        consumer, client = self.consumers.pop(self.random.randrange(len(self.consumers)))
        client.gone = True
        self.queue.cancel(consumer, self.far.now)
        for _, piece in client.held:
            self.far.settle(consumer, piece, Outcome.REQUEUED)

    def get(self) -> None:
        no_ack = self.random.random() < 0.5

        def got(one: Got | None) -> None:
            if one is None:
                return
            number = int(bodies_of(one.piece, one.content)[0])
            self.seen_by_client(number, one.piece.redelivered)
            if no_ack or self.random.random() < 0.5:
                self.acknowledged[number] = self.links
            if not no_ack:
                kept = number in self.acknowledged and self.acknowledged[number] == self.links
                self.far.settle(None, one.piece, Outcome.ACKNOWLEDGED if kept else Outcome.REQUEUED)

        try:
            self.queue.get(no_ack, self.far.now).then(got, lambda _: None)
        except NotFound:
            assert not self.linked

    def change_sockets(self) -> None:
        for _, client in self.consumers:
            client.writable = self.random.random() < 0.7
        if self.random.random() < 0.5:
            self.far.wake(self.queue)

    def change_prefetch(self) -> None:
        for consumer, _ in self.consumers:
            consumer.prefetch = max(consumer.prefetch, self.random.choice([1, 5])) if consumer.prefetch else 0
        self.far.wake(self.queue)

    def hold_up(self) -> None:
        for way in ((HERE, HOME), (HOME, HERE)):
            if self.random.random() < 0.3:
                self.far.far.network.stop_way(*way)
            else:
                self.far.far.network.open_way(*way)

    def break_link(self) -> None:
        if self.random.random() < 0.3:
            self.far.disconnect()
            self.linked = False
        else:
            self.far.connect()
            self.linked = True
        self.links += 1

    def a_little(self) -> None:
        for _ in range(self.random.randint(1, 5)):
            self.far.far.network.loop.run_soon()
            self.far.far.network.step()
            self.pump()

    def pump(self) -> None:
        woken, self.far.woken = self.far.woken, {}
        for queue in woken:
            queue.pump(self.far.now)

    def play(self) -> None:
        steps = [self.publish, self.consume, self.settle, self.leave, self.get, self.change_sockets]
        steps += [self.change_prefetch, self.hold_up, self.break_link, self.a_little, self.far.turn]
        weights = [6, 4, 6, 2, 2, 2, 1, 1, 1, 8, 3]
        for _ in range(STEPS):
            self.random.choices(steps, weights)[0]()
            self.consumers = [(consumer, client) for consumer, client in self.consumers if not client.gone]
            assert self.far.far.network.bad == []

    def end(self) -> None:
        """All is quiet, and everybody has gone."""
        for way in ((HERE, HOME), (HOME, HERE)):
            self.far.far.network.open_way(*way)
        if not self.linked:
            self.far.connect()
        self.far.turn()
        while self.consumers:
            self.leave()
        self.far.turn()
        figures = self.queue.statistics()
        assert (figures.unacknowledged, figures.consumers) == (0, 0)
        left = [int(body) for body in self.far.drain(self.queue)]
        assert len(set(left)) == len(left), "a message is there twice"
        confirmed = {self.numbers[tag] for tag in self.far.answers.accepted}
        lost = confirmed - set(left) - self.acknowledged.keys()
        assert not lost, f"{lost} were confirmed, and nobody acknowledged them"
        heard = {number for number, link in self.acknowledged.items() if link == self.links}
        assert not heard & set(left), f"{heard & set(left)} were acknowledged, and are there again"
        assert len(self.far.answers.accepted) + len(self.far.answers.refused) == self.published


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_nothing_is_lost_or_doubled_whatever_happens_to_links_and_clients(first: int) -> None:
    for seed in range(first, first + 10):
        run = Run(seed)
        run.play()
        run.end()
