"""A classic queue becomes a quorum queue while clients publish and consume through every node, and nodes are killed: what was
confirmed comes to somebody, comes again with the mark only, and in the order of its publisher."""

from __future__ import annotations

from functools import partial

import pytest

from broker.catalog.commands.catalog_commands import (
    Command,
    DeclareQueue,
    DeleteQueue,
    DeleteVhost,
    PutPolicy,
    RemoveNode,
)
from broker.errors import NotFound, ResourceLocked
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.names import becoming_queue
from broker.operations.queue_conversions import QueueConversions
from broker.queues.queue_deletion import delete_queue
from broker.records import PolicyRecord
from classic.queue import ClassicQueue
from native.content import encode
from node.conversion.conversion import PAUSE_MAX_MS, Phase
from node.conversion.conversions import AT_ONCE_MAX, LOOK_AGAIN_MS, TOLD_MS
from tests.sim.brokers.process import BrokerProcess
from tests.unit.node.conversion.converted_world import QUEUE, Comer, ConvertedWorld, Declarer

BACKLOG = 1_000
SINGLE_ACTIVE = {"x-single-active-consumer": True}


class Answers:
    """Who published, or asked for something. Fulfils AnswersTo."""

    def __init__(self) -> None:
        self.taken: list[bool] = []
        self.got: list[object] = []

    def answered(self, receipt: Receipt) -> None:
        self.taken.append(receipt.taken)

    def given_up(self, receipt: Receipt) -> None:
        self.taken.append(False)

    def ask(self, queue: ClassicQueue) -> None:
        queue.get(False, 0).then(self.heard, self.heard)

    def heard(self, one: object) -> None:
        self.got.append(one)


def process_of(world: ConvertedWorld, node: int = 1) -> BrokerProcess:
    process = world.sim.sites[node].process
    assert process is not None, f"node {node} is down"
    return process


def fenced(world: ConvertedWorld) -> ClassicQueue:
    """The queue that is being converted, once it is."""
    conversions = process_of(world).kernel.conversions
    world.until(lambda: any(one.source.fence for one in conversions.running.values()), step_s=0.0002)
    return next(one.source for one in conversions.running.values())


def is_quorum_everywhere(world: ConvertedWorld) -> bool:
    return all(world.kind_on(node) == "quorum" for node in world.sim.sites)


def test_a_queue_in_use_is_converted_and_nobody_notices_but_for_a_moment() -> None:
    world = ConvertedWorld(1, BACKLOG)
    world.sim.loop.run_for(1.0)
    world.convert()
    world.until(lambda: world.conversion)
    conversion = world.conversion
    assert conversion is not None
    world.until(lambda: is_quorum_everywhere(world))
    assert conversion.phase is Phase.OVER and 0 < conversion.fenced_ms <= PAUSE_MAX_MS
    world.sim.loop.run_for(1.0)
    assert all(taker.channel is not None for taker in world.takers), "consumers stay"
    world.judge()
    assert all(publisher.published > 150 for publisher in world.publishers)
    process = world.sim.sites[1].process
    assert process is not None
    assert not [record.name for record in process.broker.catalog.queues("/") if record.name.startswith("amq.becoming")]


@pytest.mark.parametrize("node", [1, 2, 3])
@pytest.mark.parametrize("phase", [Phase.FOUNDING, Phase.COPYING, Phase.FENCED, Phase.SEALED, Phase.SWAPPING])
def test_any_node_is_killed_at_any_step_and_the_queue_is_one_or_the_other_with_all_it_had(
    node: int, phase: Phase
) -> None:
    world = ConvertedWorld(10 * node + phase, BACKLOG)
    world.convert()
    world.until(lambda: world.conversion is not None and world.conversion.phase >= phase, step_s=0.0005)
    world.kill(node)
    world.sim.loop.run_for(5.0)
    kinds = {world.kind_on(one) for one in world.sim.sites}
    assert len(kinds) == 1, "all nodes say the same"
    if kinds == {"classic"} and world.conversion is None:
        assert node == 1, "who loses another node goes on"
        world.convert()
    world.until(lambda: is_quorum_everywhere(world))
    world.judge()


def converted_unheard_by_node_3(world: ConvertedWorld) -> None:
    """Its link to the node that leads the catalog is cut, and it knows the queue's home well."""
    world.lead_catalog(2)
    world.convert()
    world.until(lambda: (one := world.conversion) is not None and one.phase >= Phase.COPYING, step_s=0.0005)
    world.cut(2, 3)
    world.until(lambda: world.kind_on(1) == "quorum")
    assert world.kind_on(3) == "classic"


@pytest.mark.parametrize("restarts", [False, True])
def test_a_node_that_hears_of_the_change_very_late_loses_nothing_of_what_it_confirms(restarts: bool) -> None:
    """The queue's home had forgotten at its restart what it had become, and took what was published to it for lost with a
    deleted queue: that counts as confirmed."""
    world = ConvertedWorld(3, BACKLOG)
    converted_unheard_by_node_3(world)
    if restarts:
        world.kill(1)
        world.until(lambda: world.knows(1) and world.sim.sites[1].serves_clients)
    confirmed = len(world.confirmed)
    world.until(lambda: len(world.confirmed) > confirmed + 100 and world.publishers[2].published > 200)
    assert world.kind_on(3) == "classic"
    world.sim.network.heal()
    world.until(lambda: is_quorum_everywhere(world))
    world.judge()


def test_who_hears_very_late_of_a_queue_that_was_deleted_since_is_told_that_it_is_gone() -> None:
    """It had no answer before its node heard of the change, and never where a snapshot of the catalog skipped that."""
    world = ConvertedWorld(3, 0)
    converted_unheard_by_node_3(world)
    asked = Answers()
    world.do(lambda process: asked.ask(process.broker.find_queue("/", QUEUE).queue), 3)  # type: ignore[union-attr,arg-type]
    world.sim.loop.run_for(0.5)
    assert asked.got == []
    world.do(lambda process: process.broker.submit(DeleteQueue("/", QUEUE), 0))
    world.until(lambda: asked.got)
    assert world.kind_on(3) == "classic" and asked.got == [None]


def home_cut_off_in_mid_change(world: ConvertedWorld) -> None:
    """The home of the queue is cut off from the node that leads the catalog when it has said that the queue is another one."""
    world.lead_catalog(2)
    world.convert()
    world.until(lambda: (one := world.conversion) is not None and one.phase is Phase.SWAPPING, step_s=0.0002)
    world.sim.loop.run_for(0.003)  # its last word is on the way
    world.cut(1, 2)
    world.until(lambda: world.kind_on(3) == "quorum")


@pytest.mark.parametrize("power", [False, True])
def test_a_home_that_starts_from_before_the_change_hands_out_and_confirms_nothing_before_it_hears_of_it(
    power: bool,
) -> None:
    """Its catalog says that the queue is about to become another one, as it did before the first copy was made."""
    world = ConvertedWorld(3, BACKLOG)
    home_cut_off_in_mid_change(world)
    world.sim.sites[1].end(power=power)
    world.sim.start_later(world.sim.sites[1], 0.5)
    world.until(lambda: world.knows(1) and world.sim.sites[1].serves_clients)
    published, confirmed = world.publishers[0].published, set(world.confirmed)
    world.until(lambda: world.publishers[0].published > published + 100)
    assert world.kind_on(1) == "classic"
    assert {body[:2] for body in world.confirmed.keys() - confirmed} <= {b"2/", b"3/"}
    queue = world.sim.sites[1].process.broker.find_queue("/", QUEUE).queue  # type: ignore[union-attr]
    assert isinstance(queue, ClassicQueue) and not queue.out
    world.sim.network.heal()
    world.until(lambda: is_quorum_everywhere(world))
    world.judge()


def test_who_waits_for_a_home_that_has_not_heard_yet_is_answered_when_the_queue_is_deleted() -> None:
    """What is published on another node right behind the change waits until the home has passed on what came before. The home
    is cut off from the catalog, and what it hears in the end may be a snapshot, in which neither of the queues is."""
    world, answers = ConvertedWorld(3, 50), Answers()
    world.at_rest = True
    home_cut_off_in_mid_change(world)
    run = Run("", QUEUE, encode(b"\0\0", b"1:999999:"), 1, 9, persistent=True)

    def publish(process: BrokerProcess) -> None:
        found = process.broker.find_queue("/", QUEUE)
        assert found is not None
        found.kind.publish([found.queue], run, Receipt(answers, 1, 1, 1), 0)

    world.do(publish, 3)
    world.sim.loop.run_for(1.0)
    assert (world.kind_on(1), answers.taken) == ("classic", [])
    world.do(lambda process: process.broker.submit(DeleteQueue("/", QUEUE), 0), 2)
    world.until(lambda: answers.taken)
    assert (world.kind_on(1), answers.taken) == ("classic", [True]), "as of any queue that is gone"


def test_who_waits_for_a_home_that_began_again_is_answered_when_the_queue_is_deleted() -> None:
    """It makes an end of the conversion, and the queue is fenced until it hears of that; what it hears of is that the queue is
    gone."""
    world, answers = ConvertedWorld(3, BACKLOG), Answers()
    world.at_rest = True
    world.lead_catalog(2)
    world.convert()
    world.until(lambda: world.conversion, step_s=0.0002)
    world.sim.sites[1].end(power=False)
    world.cut(1, 2)
    world.sim.start_later(world.sim.sites[1], 0.5)
    world.until(lambda: world.sim.sites[1].process is not None and world.knows(1))
    found = process_of(world).broker.find_queue("/", QUEUE)
    assert found is not None and isinstance(found.queue, ClassicQueue)
    source = found.queue
    assert source.fence is not None
    run = Run("", QUEUE, encode(b"\0\0", b"1:999999:"), 1, 9, persistent=True)
    world.do(lambda process: process.kernel.classic.publish([source], run, Receipt(answers, 1, 1, 1), 0))
    world.do(lambda process: process.kernel.classic.publish([source], run, None, 0))
    world.do(lambda _: answers.ask(source))
    world.do(lambda process: process.broker.submit(DeleteQueue("/", QUEUE, source.record.id), 0), 2)
    world.until(lambda: world.kind_on(2) == "")
    assert (answers.taken, answers.got) == ([], [])
    world.sim.network.heal()
    world.until(lambda: answers.taken and answers.got)
    assert answers.taken == [True], "as of any queue that is gone"
    assert isinstance(answers.got[0], NotFound)


def publish_at_home(world: ConvertedWorld, body: bytes, answers: Answers) -> None:
    run = Run("", QUEUE, encode(b"\0\0", body), 1, len(body), persistent=True)

    def publish(process: BrokerProcess) -> None:
        found = process.broker.find_queue("/", QUEUE)
        assert found is not None
        found.kind.publish([found.queue], run, Receipt(answers, 1, 1, 1), 0)

    world.do(publish)


def test_who_waits_for_a_home_that_began_again_is_answered_by_what_the_queue_has_become() -> None:
    """It hears late that the change was made by the process before, and has put up a fence meanwhile."""
    world, answers = ConvertedWorld(3, 0), Answers()
    world.at_rest = True
    home_cut_off_in_mid_change(world)
    world.sim.sites[1].end(power=False)
    world.sim.start_later(world.sim.sites[1], 0.5)
    world.until(lambda: world.knows(1) and world.sim.sites[1].serves_clients)
    found = process_of(world).broker.find_queue("/", QUEUE)
    assert found is not None and isinstance(found.queue, ClassicQueue) and found.queue.fence is not None
    source = found.queue
    publish_at_home(world, b"1:999999:", answers)
    world.do(lambda _: answers.ask(source))
    world.sim.loop.run_for(1.0)
    assert (world.kind_on(1), answers.taken, answers.got) == ("classic", [], [])
    world.sim.network.heal()
    world.until(lambda: is_quorum_everywhere(world))
    world.until(lambda: answers.taken and answers.got)
    assert answers.taken == [True]
    world.until(lambda: b"1:999999:" in world.given or answers.got[0] is not None)


@pytest.mark.parametrize("home_begins_again", [False, True])
def test_what_waits_behind_the_fence_comes_into_the_queue_that_stays_what_it_was(home_begins_again: bool) -> None:
    world, answers = ConvertedWorld(3, BACKLOG if home_begins_again else 0), Answers()
    world.at_rest = True
    world.lead_catalog(2)
    world.convert()
    if home_begins_again:
        world.until(lambda: world.conversion, step_s=0.0002)
        world.sim.sites[1].end(power=False)
        world.cut(1, 2)
        world.sim.start_later(world.sim.sites[1], 0.5)
        world.until(lambda: world.sim.sites[1].process is not None and world.knows(1))
    else:
        fenced(world)
        world.cut(1, 2)
        world.cut(1, 3)
    publish_at_home(world, b"1:999999:", answers)
    world.sim.loop.run_for(0.1)
    assert answers.taken == []
    if not home_begins_again:
        world.do(lambda _: world.conversion and world.conversion.give_up())
    world.sim.network.heal()
    world.until(lambda: answers.taken and world.conversion is None)
    assert answers.taken == [True] and world.kind_on(1) == "classic"
    world.until(lambda: b"1:999999:" in world.given)


def test_what_clients_of_other_nodes_hold_is_copied_too() -> None:
    """It was handed out before there was anything to copy it to, and nobody settles it."""
    world = ConvertedWorld(6, 80, hold_s=1_000.0)
    world.at_rest = True
    world.until(lambda: len(world.given) == 80)
    world.convert()
    world.until(lambda: is_quorum_everywhere(world), within_s=10.0)


@pytest.mark.parametrize("what_is_there", ["nothing", "a quorum queue"])
def test_what_is_to_take_the_place_of_no_classic_queue_is_deleted(what_is_there: str) -> None:
    """The classic one was deleted, or another conversion was first, when it was declared."""
    world = ConvertedWorld(4, 0)
    if what_is_there != "nothing":
        arguments = {"x-queue-type": "quorum"}
        world.do(lambda process: process.broker.submit(DeclareQueue("/", "other", "quorum", arguments=arguments), 0))
        world.until(lambda: world.kind_on(1, "other"))
    becoming = becoming_queue("other")
    world.do(lambda process: process.broker.submit(DeclareQueue("/", becoming, "quorum", home="n1"), 0))
    world.until(lambda: process_of(world).broker.catalog.queue("/", becoming), step_s=0.0002)
    world.until(lambda: process_of(world).broker.catalog.queue("/", becoming) is None)


def test_a_conversion_whose_home_is_removed_leaves_nothing_behind() -> None:
    """Nobody is left whom it belongs to: any node deletes it."""
    world = ConvertedWorld(5, BACKLOG)
    world.at_rest = True
    world.lead_catalog(2)
    world.convert()
    world.until(lambda: world.conversion, step_s=0.0005)
    world.sim.sites[1].end(power=True)
    catalog = process_of(world, 3).broker.catalog
    assert catalog.queue("/", becoming_queue(QUEUE)) is not None
    world.do(lambda process: process.broker.submit(RemoveNode("n1"), 0), 2)
    world.until(lambda: catalog.queue("/", QUEUE) is None)
    world.until(lambda: catalog.queue("/", becoming_queue(QUEUE)) is None)


@pytest.mark.parametrize("asks", [True, False])
def test_what_was_refused_behind_the_fence_does_not_come_behind_what_was_published_since(asks: bool) -> None:
    """Its node's link to the home had broken, so that did not wait for what was still on its way there (seed 300037). What
    nobody asked to be told of is kept, for that would be lost, and its order is not."""
    world, answers = ConvertedWorld(3, 0), Answers()
    world.at_rest = world.consumers_come_and_go = True
    world.lead_catalog(2)
    world.convert()
    source = fenced(world)

    def publish(body: bytes, receipt: Receipt | None, process: BrokerProcess) -> None:
        found = process.broker.find_queue("/", QUEUE)
        assert found is not None
        run = Run("", QUEUE, encode(b"\0\0", body), 1, len(body), persistent=True)
        found.kind.publish([found.queue], run, receipt, 0)

    world.do(partial(publish, b"3:first:", Receipt(answers, 1, 1, 1) if asks else None), 3)
    world.until(lambda: world.conversion is not None and world.conversion.phase is Phase.SWAPPING, step_s=0.0002)
    assert source.fence is not None and source.fence.publishes._held, "it has arrived"
    world.sim.loop.run_for(0.003)  # the home's last word is on the way
    world.cut(1, 2)
    world.cut(1, 3)
    world.sim.network.reset(1, 3)
    world.until(lambda: world.kind_on(3) == "quorum")
    world.do(partial(publish, b"3:second:", Receipt(answers, 2, 2, 1)), 3)
    world.until(lambda: answers.taken[-1:] == [True])
    assert answers.taken == [False, True][not asks :]
    assert world.kind_on(1) == "classic"
    world.sim.network.heal()
    world.until(lambda: is_quorum_everywhere(world))
    world.sim.loop.run_for(1.0)
    assert (b"3:first:" in world.given, b"3:second:" in world.given) == (not asks, True)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_who_comes_and_goes_as_a_consumer_at_the_very_moment_is_not_turned_away(seed: int) -> None:
    world = ConvertedWorld(seed, BACKLOG)
    world.consumers_come_and_go = True
    comers = [Comer(world, node) for node in world.sim.sites]
    world.convert()
    world.until(lambda: is_quorum_everywhere(world))
    world.sim.loop.run_for(1.0)
    assert [one.troubles for one in comers if one.troubles] == []
    assert all(one.came > 20 for one in comers)
    world.judge()


def test_a_queue_that_is_deleted_meanwhile_leaves_nothing_behind() -> None:
    world = ConvertedWorld(5, BACKLOG)
    world.convert()
    world.until(lambda: world.conversion, step_s=0.0005)
    process = world.sim.sites[1].process
    assert process is not None
    before = process.broker.catalog.queue("/", QUEUE)
    assert before is not None
    world.do(lambda running: running.broker.submit(DeleteQueue("/", QUEUE, before.id), 0))
    world.until(lambda: not [one for one in process.broker.catalog.queues("/") if QUEUE in one.name])
    assert world.conversion is None


@pytest.mark.parametrize("what", ["queue", "vhost"])
def test_who_waits_behind_the_fence_is_answered_when_the_queue_is_deleted(what: str) -> None:
    world, answers = ConvertedWorld(5, BACKLOG), Answers()
    world.convert()
    source = fenced(world)
    run = Run("", QUEUE, encode(b"\0\0", b"1:999999:"), 1, 9, persistent=True)
    world.do(lambda process: process.kernel.classic.publish([source], run, Receipt(answers, 1, 1, 1), 0))
    world.do(lambda _: answers.ask(source))
    command: Command = DeleteVhost("/") if what == "vhost" else DeleteQueue("/", QUEUE, source.record.id)
    world.do(lambda process: process.broker.submit(command, 0))
    world.until(lambda: answers.taken and answers.got)
    assert answers.taken == [True], "as of any queue that is gone"
    assert isinstance(answers.got[0], NotFound)
    assert world.conversion is None


def test_what_a_quorum_queue_refuses_is_refused_to_who_asked_behind_the_fence() -> None:
    world, answers = ConvertedWorld(7, 0), Answers()
    world.do(lambda process: process.broker.submit(DeclareQueue("/", "one", arguments=SINGLE_ACTIVE, home="n1"), 0))
    world.sim.loop.run_for(0.5)
    world.convert("one")
    source = fenced(world)
    world.do(lambda _: answers.ask(source))
    world.until(lambda: answers.got)
    assert isinstance(answers.got[0], ResourceLocked)
    world.until(lambda: world.kind_on(1, "one") == "quorum")


@pytest.mark.parametrize("node", [1, 2, 3])
def test_who_deletes_a_queue_at_the_very_change_deletes_what_it_has_become(node: int) -> None:
    world, answers = ConvertedWorld(9, 50), Answers()
    world.convert()
    world.until(lambda: world.conversion is not None and world.conversion.phase is Phase.SWAPPING, step_s=0.0002)

    def delete(process: BrokerProcess) -> None:
        found = process.broker.find_queue("/", QUEUE)
        assert found is not None
        asked = delete_queue(process.broker, found.queue, if_unused=False, if_empty=False, now=0)
        asked.then(answers.heard, answers.heard)

    world.do(delete, node)
    world.until(lambda: answers.got)
    assert isinstance(answers.got[0], int)
    assert world.kind_on(node) == ""


@pytest.mark.parametrize("seed", [1, 2])
def test_who_declares_it_all_the_time_as_it_was_finds_it_as_it_should_be(seed: int) -> None:
    world = ConvertedWorld(seed, BACKLOG)
    declarers = [Declarer(world, node) for node in world.sim.sites]
    world.convert()
    world.until(lambda: is_quorum_everywhere(world))
    world.sim.loop.run_for(1.0)
    assert [one.troubles for one in declarers if one.troubles] == []
    assert all(one.declared > 10 for one in declarers)


def test_a_policy_converts_only_so_many_queues_at_once() -> None:
    world, names = ConvertedWorld(8, 0), [f"many.{number}" for number in range(20)]
    for name in names:
        world.do(partial(_declare, name))
    world.sim.loop.run_for(1.0)
    policy = PolicyRecord("/", "ha", "^many", "all", 0, {"ha-mode": "all"})
    world.do(lambda process: process.broker.submit(PutPolicy(policy), 0))
    catalog, most = process_of(world).broker.catalog, 0
    while not all(world.kind_on(1, name) == "quorum" for name in names):
        world.sim.loop.run_for(0.01)
        most = max(most, sum(one.name.startswith("amq.becoming.") for one in catalog.queues("/")))
    assert most == AT_ONCE_MAX


@pytest.mark.parametrize("jump_ms", [0, -3_600_000, 3_600_000])
def test_a_policy_waits_longer_each_time_that_a_conversion_has_ended_and_a_command_does_not(jump_ms: int) -> None:
    """All of it was copied again each 30 s."""
    world = ConvertedWorld(10, 20)
    policy = PolicyRecord("/", "ha", f"^{QUEUE}$", "all", 0, {"ha-mode": "all"})
    world.do(lambda process: process.broker.submit(PutPolicy(policy), 0))

    def given_up_at(within_s: float) -> float:
        world.until(lambda: world.conversion is not None, within_s, step_s=0.01)
        world.do(lambda _: world.conversion and world.conversion.give_up())
        world.until(lambda: world.conversion is None)
        return world.sim.loop.time()

    first = given_up_at(5.0)
    world.sim.sites[1].clock.wall_offset_ms += jump_ms  # the home of the queue
    second = given_up_at(70.0)
    third = given_up_at(130.0)
    assert 0 <= second - first - LOOK_AGAIN_MS / 1_000 <= LOOK_AGAIN_MS / 1_000 + 1
    assert 0 <= third - second - 2 * LOOK_AGAIN_MS / 1_000 <= LOOK_AGAIN_MS / 1_000 + 1
    world.convert()
    world.until(lambda: world.kind_on(1) == "quorum")


def test_a_conversion_whose_copies_wait_for_a_majority_says_so_and_goes_on_when_it_is_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="leveret")
    world = ConvertedWorld(11, BACKLOG)
    world.sim.loop.run_for(1.0)
    world.convert()
    world.until(lambda: (one := world.conversion) is not None and one.phase >= Phase.COPYING, step_s=0.0005)
    world.cut(1, 2)
    world.cut(1, 3)
    world.sim.loop.run_for(TOLD_MS / 1_000 + 3)
    process = process_of(world)
    record = process.broker.catalog.queue("/", QUEUE)
    assert record is not None
    shown = QueueConversions(process.broker).under_way(record)
    assert shown is not None and shown.state == "converting"
    assert shown.waits_for.startswith("a majority of its group on n1, n2, n3, for 1")
    told = [one.message for one in caplog.records if "stands still" in one.message]
    assert len(told) == 1 and f"queue convert {QUEUE} --cancel" in told[0]
    world.sim.heal()
    world.until(lambda: is_quorum_everywhere(world))
    assert "goes on" in caplog.text
    world.judge()


def cut_off_home(world: ConvertedWorld, at: Phase, for_s: float) -> None:
    """From all others, as soon as it has come so far."""
    world.sim.loop.run_for(1.0)
    world.convert()
    world.until(lambda: (one := world.conversion) is not None and one.phase >= at, step_s=0.0002)
    world.cut(1, 2)
    world.cut(1, 3)
    world.sim.loop.run_for(for_s)
    assert world.conversion is not None
    world.sim.heal()


@pytest.mark.parametrize("seed", [12, 13])
def test_a_home_that_was_cut_off_while_it_copied_gives_nobody_again_what_was_acknowledged(seed: int) -> None:
    """The others took it for down when its copies came, and what it settled of them was not heard. How many had come back was
    read before its own member had seen that, so they took the place of the queue unmarked."""
    world = ConvertedWorld(seed, BACKLOG)
    cut_off_home(world, Phase.COPYING, 3.0)
    world.until(lambda: is_quorum_everywhere(world))
    world.judge()


def test_a_conversion_whose_copies_were_taken_back_while_its_home_was_cut_off_is_ended() -> None:
    """They came again under other ids when the home was back. From then on it was fenced for nine tenths of every other second,
    until somebody cancelled the conversion."""
    world = ConvertedWorld(12, BACKLOG)
    policy = PolicyRecord("/", "soon", f"^{QUEUE}$", "all", 0, {"consumer-disconnected-timeout": 1_000})
    world.do(lambda process: process.broker.submit(PutPolicy(policy), 0))
    cut_off_home(world, Phase.FENCED, 5.0)
    world.until(lambda: world.conversion is None)
    world.sim.loop.run_for(1.0)
    assert {world.kind_on(node) for node in world.sim.sites} == {"classic"}
    world.judge()


def _declare(name: str, process: BrokerProcess) -> None:
    process.broker.submit(DeclareQueue("/", name, home="n1"), 0)
