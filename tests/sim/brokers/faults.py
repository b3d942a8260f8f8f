"""What happens to brokers besides what happens to any node (tests/sim/faults.py): to clients, and by operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, TypeVar, cast

from broker.catalog.commands.metadata_entry import METADATA_GROUP
from node.identity import DISK
from quorum.queue import QuorumQueue
from raft.core.messages import Membership, node_of
from storage import names
from stream.queue import StreamQueue
from tests.sim.brokers.conversions import BEHIND_THE_FENCE
from tests.sim.disk import Call
from tests.sim.disk import Fault as DiskFault
from tests.sim.faults import ARMED_S, HAPPENINGS, Faults, Happen
from tests.sim.network import Trouble
from tests.sim.plan import Ask, Fault

if TYPE_CHECKING:
    from tests.sim.brokers.site import BrokerSite
    from tests.sim.brokers.world import BrokerWorld

BESIDE_THE_LOG = (names.CLASSIC_DIRECTORY, names.STORE_PERSISTENT, names.STORE_TRANSIENT)
Client = TypeVar("Client")

LOOK_S = 0.002  # how often is looked whether a queue is behind its fence
SHRINKING_S = 5.0  # as long a change of members may be on its way, of which no log knows yet

BROKER_HAPPENINGS: dict[str, Happen] = dict(HAPPENINGS)


def kind(name: str) -> Callable[[Happen], Happen]:
    def register(happen: Happen) -> Happen:
        BROKER_HAPPENINGS[name] = happen
        return happen

    return register


def world_of(faults: Faults) -> BrokerWorld:
    return cast("BrokerWorld", faults.world)


def site_of(faults: Faults, fault: Fault) -> BrokerSite | None:
    return cast("BrokerSite | None", faults.site(fault))


def victims(faults: Faults, random: Random, clients: Sequence[Client]) -> Sequence[Client]:
    """One of them; or all, the first of which that can be hit is."""
    drawn = random.randrange(len(clients))
    return [*clients[drawn:], *clients[:drawn]] if faults.world.shape.seeks else [clients[drawn]]


# Clients


@kind("connection dies")
def _connection_dies(faults: Faults, fault: Fault, random: Random) -> bool:
    """Of a consumer, with what it holds."""
    return any(one.lose_connection() for one in victims(faults, random, world_of(faults).consumers))


@kind("publisher moves")
def _publisher_moves(faults: Faults, fault: Fault, random: Random) -> bool:
    """Its connection dies with answers on their way; it sends again, to another node."""
    return any(publisher.lose_connection() for publisher in victims(faults, random, world_of(faults).all_publishers))


@kind("consumer stalls")
def _consumer_stalls(faults: Faults, fault: Fault, random: Random) -> bool:
    return any(one.stall(fault.span) for one in victims(faults, random, world_of(faults).consumers))


# Links


@kind("damaged bytes")
def _damaged_bytes(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """Some letters to and from one node are changed on their way. value: how likely each."""
    site = faults.site(fault)
    number = site.number if site else fault.other
    return faults.trouble(fault, Trouble("damaged bytes", lambda a, b: number in (a, b), loss=0.0, damage=fault.value))


@kind("catalog out of reach")
def _catalog_out_of_reach(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """One node hears nothing of the one that leads the catalog, and works with all others, which have a newer one."""
    site = faults.site(fault)
    trouble = _out_of_reach(world_of(faults), site.number) if site is not None else None
    return faults.trouble(fault, trouble) if trouble is not None else False


def _out_of_reach(world: BrokerWorld, node: int) -> Trouble | None:
    led = world.leader(METADATA_GROUP)
    leader = led[0].number if led is not None else node
    return None if leader == node else Trouble("catalog out of reach", lambda a, b: {a, b} == {node, leader})


# Conversions


@kind("end in mid change")
def _end_in_mid_change(faults: Faults, fault: Fault, random: Random) -> None:
    """The home of a queue that is being converted ends, by itself or with its power, a moment after the queue was fenced. In
    some of these the catalog is out of its reach from then on, so that its next process may begin with an old one. value: the
    moment."""
    world, until = world_of(faults), faults.world.loop.time() + ARMED_S
    power, stays_behind = random.random() < 0.5, random.random() < 0.5

    def look() -> None:
        site = next(filter(_has_a_fence, world.sites.values()), None)
        if site is not None:
            trouble = _out_of_reach(world, site.number) if stays_behind else None
            if trouble is not None:
                world.network.troubles.append(trouble)
                faults.later(fault.value + 2 * fault.span, faults.end_trouble, trouble)
            faults.later(fault.value, end, site)
        elif world.loop.time() < until and not world.is_healed:
            faults.later(LOOK_S, look)

    def end(site: BrokerSite) -> None:
        if not world.is_healed and faults.end(site, fault, power=power):
            faults.took_effect(fault)

    look()


def _has_a_fence(site: BrokerSite) -> bool:
    return site.process is not None and any(one.phase in BEHIND_THE_FENCE for one in site.process.conversions)


# The disk


@kind("no room beside the log")
def _no_room_beside_the_log(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """The files of classic queues find no room for a while, or only their manifest, which is always a new file; perhaps only
    sometimes, as where others write and delete. What the log is given fits. value: seconds later the node's process, or its
    power, goes."""
    world = world_of(faults)
    homes = sorted({book.home for book in world.classics.values()} - set(world.away))
    site = world.sites[random.choice(homes)] if homes else None
    if site is None or site.process is None:
        return False

    where = random.choice((BESIDE_THE_LOG, (names.CLASSIC_FILES,)))
    chance = random.choice((0.3, 1.0))

    def full(call: Call) -> DiskFault | None:
        if call.operation not in ("write", "create") or not call.name.startswith(where):
            return None
        if random.random() >= chance:
            return None
        faults.took_effect(fault)
        return DiskFault.ENOSPC

    disk = site.disk
    faults.harm(disk, full)

    def end() -> None:
        if site.disk is disk and not world.is_healed:
            faults.end(site, fault, power=random.random() < 0.5)

    faults.later(fault.span, faults.mend, disk, full)
    faults.later(fault.span + fault.value, end)
    return None


# Operators


@kind("drain")
def _drain(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """And revive, unless another process runs by then."""
    site = site_of(faults, fault)
    if site is None or site.process is None or site.stopped or site.process.is_drained:
        return False
    process = site.process
    site.run(site.life, process.drain, (partial(faults.took_effect, fault),))

    def revive() -> None:
        if site.process is process and process.is_drained:
            site.run(site.life, process.revive, ())

    faults.later(fault.span, revive)
    return None


@kind("grow queue")
@kind("shrink queue")
def _change_members(faults: Faults, fault: Fault, random: Random) -> bool | None:
    """What grows is a queue that can, where there is one: most have a member on every node."""
    world = world_of(faults)
    grows = fault.kind == "grow queue"
    for process, queue in islice(world.some_queues(random), None if grows else 1):
        node = _node_for_a_change(world, queue, random, grows=grows)
        if node is None:
            continue
        if not grows:
            world.shrunk_at = world.loop.time()
        change = partial(world.operator.change_members, process, queue, node, grows=grows)
        process.site.run(process.site.life, partial(change, done=partial(faults.took_effect, fault)), ())
        return None
    return False


def _node_for_a_change(
    world: BrokerWorld, queue: QuorumQueue | StreamQueue, random: Random, *, grows: bool
) -> int | None:
    """Where this queue may get a member, or lose one: never so that those that are not frail are no majority any more."""
    led = world.leader(queue.group)
    if led is None:
        return None
    membership = led[1].core._s.membership
    members = [node_of(one) for one in (*membership.voters, *membership.learners)]
    others = [number for number, site in world.sites.items() if number not in world.away and site.kind == DISK]
    fit = [number for number in others if (number in members) != grows]
    if world.shape.seeks and not grows:
        fit = [number for number in fit if _can_go(world, membership, number)]
    node = random.choice(fit) if fit else None
    return node if node is None or grows or _can_go(world, membership, node) else None


def _can_go(world: BrokerWorld, membership: Membership, node: int) -> bool:
    """Whether those that are left are a majority without any frail one."""
    left = [node_of(one) for one in membership.voters if node_of(one) != node]
    sound = [one for one in left if not world.is_frail(one) and one not in world.away]
    return len(sound) * 2 > len(left) and len(sound) * 2 > len(membership.voters)


@kind("forget node")
def _forget_node(faults: Faults, fault: Fault, random: Random) -> bool:
    """A node dies for good and is forgotten; another machine joins in its place. At most two in a run, never where the others
    are no majority of any group, and in a cluster with frail nodes only one of these: its loss must not add to theirs."""
    world, site = world_of(faults), site_of(faults, fault)
    if site is None or site.process is None or len(world.away) > 1 or len(world.present()) < 3:
        return False
    if world.loop.time() - world.shrunk_at < SHRINKING_S:
        return False
    if world.shape.frail and not world.is_frail(site.number):
        return False
    if not world.can_spare([*world.away, site.number]):
        return False
    world.away.append(site.number)
    site.end(power=True)
    faults.later(fault.span, world.forget, site)
    return True


@kind("policy")
def _policy(faults: Faults, fault: Fault, random: Random) -> None:
    world = world_of(faults)
    kind = "stream policy" if world.shape.streams and random.random() < 0.4 else "policy"
    world.operator.ask(Ask(fault.at, 1, 0, kind, "", 0), done=partial(faults.took_effect, fault))
