"""node/queue_types.py: one kind `classic`, for queues of this node and of others, and for runs that go to both."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from broker.catalog.policy import effective_arguments
from broker.messages.message import Run
from broker.queues.queue_type import Queue
from broker.records import QueueRecord
from native.content import encode
from node.anywhere import wire as words
from node.anywhere.remote_queues import RemoteQueue
from node.peers.calls import CLASSIC
from node.queue_types import ClassicAnywhere, classic_anywhere
from tests.contract.far_kind import HERE, HOME, FarClassic
from tests.contract.memory_queue import MemoryQueues
from tests.contract.world import START, World
from tests.sim.clock import SimLoop
from tests.unit.node.memory_calls import MemoryNetwork


class Both(World):
    """A node with queues of its own, and a link to another one that has some."""

    def __init__(self) -> None:
        super().__init__()
        self.far = FarClassic(self, SimLoop(), MemoryQueues)
        self.opened = SimpleNamespace(kind=self.far, let_disk_finish=self.far.settle)  # type: ignore[assignment]

    def own_queue(self, home: str = "here") -> Queue:
        self._ids += 1
        record = QueueRecord("/", f"own-{self._ids}", "classic", True, False, False, {}, self._ids, home)
        return self.far.here.open(record, effective_arguments(record, None, None), self.now)


@pytest.fixture
def both() -> Both:
    return Both()


@pytest.mark.parametrize("own_first", [True, False])
def test_a_run_for_queues_here_and_elsewhere_reaches_all_of_them_in_whichever_order_they_stand(
    both: Both, own_first: bool
) -> None:
    own, others = [both.own_queue(), both.own_queue()], [both.queue(), both.queue()]
    queues = own + others if own_first else others + own
    tags = both.publish(queues, b"a", b"b", confirm=True)
    both.turn()
    assert [queue.ready_count for queue in queues] == [2, 2, 2, 2]
    assert (both.answers.accepted, both.answers.refused) == (tags, [])


def test_a_queue_without_a_home_is_of_this_node(both: Both) -> None:
    """It was declared before there were clusters."""
    queue = both.own_queue(home="")
    assert not isinstance(queue, RemoteQueue)


def test_publishers_of_other_nodes_are_told_to_wait_and_figures_of_queues_as_time_goes_by(both: Both) -> None:
    queue = both.queue()
    assert isinstance(queue, RemoteQueue)
    both.far.publish([queue], Run("", "k", encode(b"\0\0", b"x"), 1, 1), None, both.now)
    both.far.settle()
    both.far.home.tick(both.now)
    both.far.home.tick(both.now + 5_000)
    both.far.settle()
    assert (queue.figures.ready, both.far.here.congested) == (1, False)
    for held in (True, False):
        both.far.home.hold(held)
        both.far.settle()
        assert both.far.here.congested == held


def test_a_queue_that_is_deleted_here_is_known_to_no_other_node_any_more(both: Both) -> None:
    queue = both.own_queue()
    both.far.here.delete(queue, both.now)
    assert queue.record.id not in both.far.here.home.queues


# ------------------------------------------------------------------------- as a node has it


class Declared:
    """What a node's catalog knows: queue 4 of another node, and that queue 6 is the next to be declared."""

    next_queue_id = 6

    def __init__(self) -> None:
        self.nodes = {"here": SimpleNamespace(number=HERE)}
        self.queues: dict[int, QueueRecord] = {}

    def queue_of_id(self, queue_id: int) -> QueueRecord | None:
        return self.queues.get(queue_id)


class Assembled:
    """This node is the home, and another one speaks of queues to it."""

    def __init__(self) -> None:
        self.host, self.catalog = World(), Declared()
        self.network = MemoryNetwork(SimLoop())
        asker, calls = self.network.join(HERE), self.network.join(HOME)
        host = SimpleNamespace(catalog=self.catalog, wake=self.host.wake, deliver_from=lambda queue, now: None)
        self.kind: ClassicAnywhere = classic_anywhere(
            "home",
            MemoryQueues(self.host),
            host,
            calls,
            self.network.loop,
            lambda: START,  # type: ignore[arg-type]
        )
        self.asker, self.answers = asker, list[bool]()
        asker.serve(CLASSIC, self._hear)
        self.network.connect(HERE, HOME)

    def _hear(self, node: int, payload: bytes, answer: object) -> None:
        if payload[0] == words.Op.CONFIRM:
            self.answers += [accepted for _, _, accepted in words.decode_confirm(payload)]

    def publish(self, queue_id: int) -> None:
        run = Run("", "k", encode(b"\0\0", b"x"), 1, 1)
        self.asker.tell(HOME, CLASSIC, words.encode_publish([queue_id], 1, run, tells_death=False))
        self.network.run()

    def declare(self, queue_id: int, home: str) -> QueueRecord:
        record = QueueRecord("/", "q", "classic", True, False, False, {}, queue_id, home)
        self.catalog.queues[queue_id] = record
        return record


def test_what_another_node_says_of_the_next_queue_to_be_declared_waits_for_it() -> None:
    node = Assembled()
    node.publish(node.catalog.next_queue_id)
    assert node.answers == []
    record = node.declare(node.catalog.next_queue_id, home="home")
    queue = node.kind.open(record, effective_arguments(record, None, None), START)
    node.network.run()
    assert (queue.ready_count, node.answers) == (1, [True])


def test_what_another_node_says_of_a_queue_that_is_declared_and_not_open_yet_waits_for_it() -> None:
    node = Assembled()
    node.declare(4, home="home")
    node.publish(4)
    assert node.answers == []


@pytest.mark.parametrize("declared", [True, False])
def test_what_another_node_says_of_a_queue_that_is_gone_or_lives_elsewhere_does_not_wait(declared: bool) -> None:
    node = Assembled()
    if declared:
        node.declare(4, home="other")
    node.publish(4)
    assert node.answers == [True], "as of a queue that was deleted just before"


def test_who_asks_for_a_queue_that_was_converted_and_deleted_before_its_home_heard_of_it_is_answered() -> None:
    node, answers = Assembled(), list[bytes | None]()
    record = node.declare(4, home="home")
    queue = node.kind.open(record, effective_arguments(record, None, None), START)
    node.asker.ask(HOME, CLASSIC, words.encode_number(words.Op.PASSED, 4), answers.append)
    node.network.run()
    node.kind.tick(START)
    node.network.run()
    assert answers == [], "it is here, and may become another one"
    del node.catalog.queues[4]
    node.kind.delete(queue, START)
    node.kind.tick(START)
    node.network.run()
    assert answers == [words.QUEUE_GONE]


def test_a_letter_that_says_nothing_ends_the_link() -> None:
    node = Assembled()
    node.asker.tell(HOME, CLASSIC, b"")
    node.network.run()
    assert node.network.bad == [f"node {HERE} says nothing about a classic queue"]
