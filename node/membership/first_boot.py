"""Takes this node to its place: it founds a cluster, is taken into one, or finds out whether it still belongs to its own.

`take_place` returns when the node's identity has a number. It may wait for long: until the other nodes of a first boot are
there, or until one of the cluster answers. What it waits for is in the log. How a first boot cannot make two clusters is
the matter of node/membership/discovery.py; this is its driver, and answers for the node while it is blank.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from broker.catalog.catalog import Catalog
from node.addresses import endpoint, host_and_port
from node.identity import DISK, Bound, NodeIdentity, Place
from node.membership.discovery import SETTLED_S, Address, Ask, Discovery, Found, GreetingReply, Join, Question
from node.membership.greetings import ANSWER_S, greeting_of, join_request, known_node, removed_text, take_up
from node.peers import peer_pb2
from node.peers.side import PeerSide
from node.peers.stranger import NoAnswer, Stranger
from node.version import VERSION

CYCLE_S = 0.3
LOOK_UP_S = 5.0
REFUSED_S_MAX = (
    15.0  # as long a refusal to be taken in may be about something that is just ending, such as an earlier process
)
REMIND_S = 30.0
JOINER_BYTES = 16
NOT_FOUND = OSError, TimeoutError, UnicodeError  # of a name: the last where it can be none

logger = logging.getLogger("leveret")


class NoPlace(Exception):
    """This node cannot start as what it is; the text says why and what to do."""


class BootSettings(NamedTuple):
    """What the configuration says about other nodes. With neither peers, dns nor join a node founds a cluster of its own."""

    data_dir: str
    peers: tuple[str, ...] = ()
    dns: str = ""
    nodes_expected: int = 0
    join: str = ""
    ram: bool = False
    zone: str = ""

    @property
    def names_others(self) -> bool:
        return bool(self.peers or self.dns or self.join)

    @property
    def addresses(self) -> set[Address]:
        return {*self.peers, *([self.join] if self.join else [])}


async def take_place(
    settings: BootSettings, identity: NodeIdentity, peers: PeerSide, random_bytes: Callable[[int], bytes]
) -> None:
    """Raises NoPlace. Be listening."""
    stranger = peers.stranger
    if stranger is not None and not identity.blank:
        peers.answer_strangers(StartingDoorman(identity))
        await _check_place(settings, identity, peers, stranger)
    elif stranger is not None and settings.names_others:
        if identity.inherits:
            raise NoPlace(
                f"the data directory {settings.data_dir} holds data of a node that belonged to no cluster: start it without "
                f"cluster.peers, cluster.dns and cluster.join to go on with them, or give an empty directory"
            )
        await FirstBoot(settings, identity, peers, stranger, random_bytes).run()
        peers.answer_strangers(StartingDoorman(identity))
    elif identity.blank:
        identity.found(random_bytes(16).hex())
        logger.info("node %s founds cluster %s of its own", identity.name, identity.cluster_id)
    if identity.kind == DISK and settings.ram:
        logger.warning(
            "cluster.ram is true, but node %s is a disk node of its cluster: `leveretctl cluster change-type` changes that",
            identity.name,
        )


class StartingDoorman:
    """Answers strangers while this node has its place, and is not ready to take part. Fulfils Doorman."""

    def __init__(self, identity: NodeIdentity) -> None:
        self._identity = identity

    async def greet(self, greeting: peer_pb2.Greeting) -> peer_pb2.Greeted:
        identity = self._identity
        return peer_pb2.Greeted(
            instance=identity.instance, name=identity.name, version=VERSION, cluster_id=identity.cluster_id
        )

    async def join(self, request: peer_pb2.JoinRequest) -> peer_pb2.JoinResponse:
        return peer_pb2.JoinResponse(refusal=f"node '{self._identity.name}' is starting", later=True)


class FirstBoot:
    """Drives the discovery of one blank node. Fulfils Doorman."""

    def __init__(
        self,
        settings: BootSettings,
        identity: NodeIdentity,
        peers: PeerSide,
        stranger: Stranger,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._peers = peers
        self._stranger = stranger
        self._refused_since: float | None = None
        self._told, self._told_at = "", 0.0
        self._unanswered: dict[Address, str] = {}  # why
        self._look_up_at = 0.0
        self._joiner = random_bytes(JOINER_BYTES).hex()
        self._discovery = Discovery(
            identity.instance,
            identity.name,
            peers.address,
            peers=settings.addresses,
            may_found=identity.kind == DISK and not settings.join,
            bound=identity.bound,
            new_cluster_id=lambda: random_bytes(16).hex(),
            nodes_expected=settings.nodes_expected,
            settled_s=SETTLED_S if settings.dns else 0.0,
        )

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        self._peers.answer_strangers(self)
        while self._identity.blank:
            if self._settings.dns and loop.time() >= self._look_up_at:
                await self._look_up(loop)
            asks = self._discovery.questions()
            await asyncio.gather(*(self._ask(ask) for ask in asks))
            decision = self._discovery.decide(loop.time())
            self._keep_promise()
            match decision:
                case Found(cluster_id):
                    self._identity.found(cluster_id)
                    logger.info("node %s founds cluster %s", self._identity.name, cluster_id)
                    return
                case Join():
                    await self._join(decision, loop.time())
            self._tell(self._discovery.waiting_for, loop.time())
            if self._identity.blank:
                await asyncio.sleep(CYCLE_S)

    # what others ask

    async def greet(self, greeting: peer_pb2.Greeting) -> peer_pb2.Greeted:
        if not self._identity.blank:
            return await StartingDoorman(self._identity).greet(greeting)
        question = Question(
            greeting.instance, greeting.name, greeting.address, frozenset(greeting.knows), greeting.founding
        )
        answer = self._discovery.asked(question)
        self._keep_promise()
        bound = answer.bound
        return peer_pb2.Greeted(
            instance=answer.instance,
            name=answer.name,
            version=VERSION,
            may_found=answer.may_found,
            founding=answer.founding,
            bound=None
            if bound is None
            else peer_pb2.Bound(
                cluster_id=bound.cluster_id, address=bound.address, instance=bound.instance, exists=bound.exists
            ),
            knows=sorted(answer.knows),
            promised=answer.promised,
            refusal=answer.refusal,
        )

    async def join(self, request: peer_pb2.JoinRequest) -> peer_pb2.JoinResponse:
        return peer_pb2.JoinResponse(refusal=f"node '{self._identity.name}' belongs to no cluster yet", later=True)

    # steps

    def _keep_promise(self) -> None:
        if self._discovery.bound != self._identity.bound:
            self._identity.bind(self._discovery.bound)

    async def _look_up(self, loop: asyncio.AbstractEventLoop) -> None:
        self._look_up_at = loop.time() + LOOK_UP_S / 10
        try:
            found = await addresses_of(self._settings.dns)
        except NOT_FOUND as error:
            logger.warning("cluster.dns: the addresses of %s cannot be found: %s", self._settings.dns, error)
            return
        self._discovery.looked_up(found, loop.time())

    async def _ask(self, ask: Ask) -> None:
        question = ask.question
        greeting = peer_pb2.Greeting(
            instance=question.instance,
            name=question.name,
            address=question.address,
            knows=sorted(question.knows),
            founding=question.founding,
        )
        try:
            greeted = await self._stranger.greet(ask.address, greeting, ANSWER_S)
        except NoAnswer as error:
            self._tell_unanswered(ask.address, str(error))
            self._discovery.answered(ask, None)
        else:
            self._unanswered.pop(ask.address, None)
            self._discovery.answered(ask, _answer(greeted))

    async def _join(self, decision: Join, now: float) -> None:
        refusal = ""
        identity, peers, zone = self._identity, self._peers, self._settings.zone
        for address in decision.addresses:
            request = join_request(identity, decision.cluster_id, self._joiner, peers.address, zone)
            try:
                response = await self._stranger.join(address, request)
            except NoAnswer as error:
                self._tell(f"the node at {address} to take this one in: {error}", now)
                continue
            if response.number and not response.disk_id:
                raise NoPlace(f"the node at {address} runs an earlier version: update the nodes of the cluster first")
            if response.number:
                take_up(identity, response)
                logger.info("node %s is node %d of cluster %s", identity.name, response.number, response.cluster_id)
                return
            if response.incarnation:
                identity.outlive(response.incarnation)
            if response.later:
                self._tell(f"the node at {address} to take this one in: {response.refusal}", now)
            else:
                refusal = response.refusal
        if not refusal:
            self._refused_since = None
            return
        self._tell(f"an operator, or an earlier process to be noticed as gone: {refusal}", now)
        self._refused_since = self._refused_since or now
        if now - self._refused_since > REFUSED_S_MAX:
            raise NoPlace(f"the cluster does not take this node in: {refusal}")

    def _tell_unanswered(self, address: Address, why: str) -> None:
        """Only what is new: each is asked again and again."""
        if self._unanswered.get(address) != why:
            self._unanswered[address] = why
            logger.info("no answer from a node at %s: %s", address, why)

    def _tell(self, waiting_for: str, now: float) -> None:
        if waiting_for and (waiting_for != self._told or now > self._told_at + REMIND_S):
            self._told, self._told_at = waiting_for, now
            logger.info("node %s waits for %s", self._identity.name, waiting_for)


def _answer(greeted: peer_pb2.Greeted) -> GreetingReply:
    bound = None
    if greeted.HasField("bound"):
        told = greeted.bound
        bound = Bound(told.cluster_id, told.address, told.instance, told.exists)
    return GreetingReply(
        greeted.instance,
        greeted.name,
        cluster_id=greeted.cluster_id,
        may_found=greeted.may_found,
        founding=greeted.founding,
        bound=bound,
        knows=frozenset(greeted.knows),
        promised=greeted.promised,
        refusal=greeted.refusal,
    )


async def addresses_of(dns: str) -> set[Address]:
    """Where a name leads to. Raises NOT_FOUND."""
    host, port = host_and_port(dns)
    async with asyncio.timeout(LOOK_UP_S):
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return {endpoint(str(address[4][0]), port) for address in found}


async def configured_places(settings: BootSettings) -> set[Address]:
    """Where the configuration says that there are nodes of this one's cluster, as far as that is known now."""
    found: set[Address] = set()
    if settings.dns:
        with suppress(*NOT_FOUND):  # it is asked again, while a node is missed
            found = await addresses_of(settings.dns)
    return found | settings.addresses


async def _check_place(settings: BootSettings, identity: NodeIdentity, peers: PeerSide, stranger: Stranger) -> None:
    """Ask the others, as far as they answer at once, whether this node is still one of them, and where they are now."""
    addresses: Iterable[Address] = {*(node.address for node in identity.nodes), *settings.addresses} - {peers.address}
    greeting = greeting_of(identity, peers.address)

    async def ask(address: Address) -> None:
        try:
            greeted = await stranger.greet(address, greeting, ANSWER_S)
        except NoAnswer as error:
            logger.info("the node at %s does not answer: %s", address, error)
            return
        if greeted.removed:
            raise NoPlace(removed_text(identity.name, greeted.removed))
        if greeted.cluster_id and greeted.cluster_id != identity.cluster_id:
            raise NoPlace(
                f"the data directory {settings.data_dir} belongs to cluster {identity.cluster_id}, the node at {address} to "
                f"cluster {greeted.cluster_id}: give an empty directory to join that one, or do not name that node"
            )
        if greeted.nodes:
            identity.know(map(known_node, greeted.nodes))

    await asyncio.gather(*map(ask, sorted(addresses)))


def check_name(place: Place, catalog: Catalog, data_dir: str) -> None:
    """Whether this directory's node has the name that it runs under now. Classic queues name their home: under another name all
    messages of this node would be taken for those of deleted queues, and be let go. Raises NoPlace."""
    record = catalog.node_of_number(place.number)
    if record is not None and record.name != place.name:
        raise NoPlace(
            f"the data directory {data_dir} belongs to node '{record.name}', and this node is named '{place.name}': start it "
            f"with --name {record.name} (node.name in the configuration; without one it is made of the host's name), or "
            f"give an empty directory"
        )
