"""Where other nodes call: a listener of its own, apart from those of clients.

Nothing of a call is read but its hello, and no handler runs, before the caller has proven that it knows the secret of this
cluster: see node/peers/handshake.py. Until then it has HELLO_TIMEOUT_S, a few kilobytes (node/peers/frames.py), and a place
among STRANGERS_MAX. Nodes that have numbers exchange letters; those that have none yet, or that are not known here under
theirs, are answered by the doorman.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Coroutine
from logging import Logger
from typing import Any, Protocol

from google.protobuf.message import DecodeError

from broker.login.client_address import source_of
from broker.login.log_throttle import LogThrottle
from front.sockets.gate import Gate, GateLimits
from front.sockets.listener import Address
from node.addresses import host_and_port
from node.peers import peer_pb2
from node.peers.frames import (
    ANSWER,
    EXCHANGE,
    GREET,
    JOIN,
    REQUEST_BYTES_MAX,
    decode_hello,
    encode_hello,
    encode_refusal,
)
from node.peers.frames import CHALLENGE as CHALLENGE_HELLO
from node.peers.handshake import CHALLENGE, NODE, Gatekeeper, Metadata, NotProven
from node.peers.link import Outdated, PeerLinks
from node.peers.socket import PeerSocket
from raft.core.errors import BadBytes
from storage.disk import Buffer

HELLO_TIMEOUT_S = 5.0  # from the accept, or the end of the TLS handshake, to the proof
TLS_HANDSHAKE_TIMEOUT_S = 5.0
HANDSHAKES_LOGGED_S = 10.0  # a failed one is logged once in so long for each host
STRANGERS_MAX = 128  # connections that have proven nothing yet
STRANGERS_PER_SOURCE_MAX = 32  # of one address; a node dials each other node once at a time
BACKLOG = 128
STOP_TIMEOUT_S = 1.0

METHODS = {GREET: "greet", JOIN: "join"}  # what the proofs of strangers are over


class Doorman(Protocol):
    """Answers nodes that have no number here: membership/first_boot.py while this node is blank, then membership/cluster.py."""

    async def greet(self, greeting: peer_pb2.Greeting) -> peer_pb2.Greeted: ...

    async def join(self, request: peer_pb2.JoinRequest) -> peer_pb2.JoinResponse: ...


class CannotListenToPeers(Exception):
    """The address cannot be used; the text names it."""


class Unproven(Exception):
    """The time for a proof is over."""


class PeerServer:
    """Listens for other nodes and hands their connections to the links."""

    def __init__(
        self, links: PeerLinks, gatekeeper: Gatekeeper, logger: Logger, doorman: Doorman | None = None
    ) -> None:
        self.doorman = doorman  # None: strangers are not answered
        self.links = links
        self.gatekeeper = gatekeeper
        self.logger = logger
        self.sockets: set[PeerSocket] = set()
        # Whose guests are strangers until their proof. The clock is that of the loop: only differences count.
        self.gate: Gate[PeerSocket] = Gate(
            GateLimits(STRANGERS_MAX, STRANGERS_PER_SOURCE_MAX),
            monotonic=_loop_time,
            logger=logger,
            describe=_describe,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._refused_handshakes = LogThrottle(HANDSHAKES_LOGGED_S)

    async def listen(self, bind: str, tls: ssl.SSLContext | None = None) -> int:
        """The port. Raises CannotListenToPeers."""
        host, port = host_and_port(bind)
        try:
            address = self.gate.listen(
                host,
                port,
                backlog=BACKLOG,
                guest=self._guest,
                tls=tls,
                handshake_timeout_s=TLS_HANDSHAKE_TIMEOUT_S,
                on_failed=self._handshake_failed,
            )
        except OSError as error:
            raise CannotListenToPeers(f"cannot listen for other nodes on {bind}: {error}") from error
        return address[1]

    async def stop(self) -> None:
        """End all connections. Links that other nodes hold to us break."""
        self.gate.close()
        for task in list(self._tasks):
            task.cancel()
        for one in list(self.sockets):
            one.abort()
        if self.sockets:
            await asyncio.wait([one.ended for one in self.sockets], timeout=STOP_TIMEOUT_S)

    # what guests ask

    def _guest(self, address: Address) -> PeerSocket:
        """Of a connection that was accepted."""
        one = _Guest(self).socket
        one.source = source_of(address[0])
        return one

    def _handshake_failed(self, address: str, error: OSError) -> None:
        """Another node with a certificate that is not believed comes again and again; so does who knocks at every port."""
        host = address.rpartition(":")[0]
        suppressed = self._refused_handshakes.may_log(host, _loop_time())
        if suppressed is not None:
            again = f" ({suppressed} more from there were not logged)" if suppressed else ""
            self.logger.warning(
                "a TLS handshake with %s on the listener for nodes failed: %s%s",
                address,
                str(error) or "it hung up, as who does not believe this node's certificate does",
                again,
            )

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class _Guest:
    """Who called, until it is known as a node, or as long as it is a stranger that is answered."""

    def __init__(self, server: PeerServer) -> None:
        self._server = server
        self._challenge = ""
        self._method = 0  # of a stranger
        self._fields: Metadata = {}  # that it has proven
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self.socket = PeerSocket(self._hear_hello, self._begin)
        self.socket.on_end = self._ended

    def _begin(self) -> None:
        server = self._server
        if not server.gate.is_stranger(self.socket):  # it gave way before its transport was there
            self.socket.abort()
            return
        server.sockets.add(self.socket)
        self.socket.ended.add_done_callback(lambda _: server.sockets.discard(self.socket))
        late = Unproven(f"it has proven nothing within {HELLO_TIMEOUT_S:g} s")
        self._timer = asyncio.get_running_loop().call_later(HELLO_TIMEOUT_S, self.socket.abort, late)
        self._challenge = server.gatekeeper.challenge()
        self.socket.send([encode_hello(CHALLENGE_HELLO, [(CHALLENGE, self._challenge)])])

    def _hear_hello(self, payload: Buffer) -> None:
        hello = decode_hello(payload)
        try:
            if hello.fields.get(CHALLENGE) != self._challenge:
                raise NotProven("it does not answer the challenge of this connection")
            if hello.kind == EXCHANGE:
                self._exchange(hello.fields)
            elif hello.kind in METHODS:
                self._expect_request(hello.kind, hello.fields)
            else:
                raise BadBytes(f"nobody calls with a hello of kind {hello.kind}")
        except NotProven as error:
            node = hello.fields.get(NODE, "without a number")[:20]
            self._server.logger.warning("a call of node %r from %s was refused: %s", node, self.socket.name, error)
            self._refuse(str(error))

    def _exchange(self, fields: Metadata) -> None:
        """Raises NotProven."""
        server = self._server
        peer = server.gatekeeper.check(fields)
        self._proven()
        link = server.links.link(peer.node)
        if link is None:
            self._refuse(f"node {peer.node} is no member of this cluster")
            return
        try:
            link.must_be_current(peer.incarnation)
        except Outdated as error:
            self._refuse(str(error))
            return
        server.logger.info("node %d is connected from %s", peer.node, self.socket.name)
        self.socket.ended.add_done_callback(
            lambda _: server.logger.info("the connection from node %d has ended", peer.node)
        )
        self.socket.send([encode_hello(ANSWER, server.gatekeeper.answer(fields))])
        link.carry(self.socket, peer.incarnation)

    def _expect_request(self, method: int, fields: Metadata) -> None:
        """Raises NotProven."""
        self._server.gatekeeper.check_stranger(METHODS[method], fields)
        self._method, self._fields = method, fields
        self.socket.accept_frames(REQUEST_BYTES_MAX)
        self.socket.on_frame = self._hear_request

    def _hear_request(self, said: Buffer) -> None:
        request = bytes(said)
        self._proven()
        self.socket.on_frame = _nothing_more
        if self._server.gatekeeper.is_request(self._fields, request):
            self._task = self._server.begin(self._answer(request))
        else:
            self._refuse("the request is not the one that was proven")

    async def _answer(self, request: bytes) -> None:
        server = self._server
        try:
            answer = await self._ask_doorman(request)
        except DecodeError as error:
            self._refuse(f"the request cannot be read: {error}")
        except Exception:  # a mistake of ours costs one call, not the node
            server.logger.exception(
                "a call of %s from %s could not be answered", METHODS[self._method], self.socket.name
            )
            self._refuse("the node failed to answer; its log says why")
        else:
            if answer is not None:
                proof = server.gatekeeper.reply(METHODS[self._method], self._fields, answer)
                self.socket.send([encode_hello(ANSWER, proof), answer])
                self.socket.close()

    async def _ask_doorman(self, request: bytes) -> bytes | None:
        """None: it was refused. Raises DecodeError."""
        doorman = self._server.doorman
        if doorman is None:
            self._refuse("this node does not answer strangers now")
            return None
        if self._method == GREET:
            return (await doorman.greet(peer_pb2.Greeting.FromString(request))).SerializeToString()
        return (await doorman.join(peer_pb2.JoinRequest.FromString(request))).SerializeToString()

    def _refuse(self, why: str) -> None:
        self._stop_timer()
        self.socket.on_frame = _nothing_more
        self.socket.send([encode_refusal(why)])
        self.socket.close()

    def _proven(self) -> None:
        """It is no stranger any more, and has all the time that it needs."""
        self._server.gate.logged_in(self.socket)
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _ended(self) -> None:
        self._stop_timer()
        self._server.gate.left(self.socket)
        if self._task is not None:
            self._task.cancel()
        fault, logger = self.socket.fault, self._server.logger
        if isinstance(fault, BadBytes | Unproven):
            logger.warning("the connection of %s to the listener for nodes is closed: %s", self.socket.name, fault)
        elif fault is not None and not isinstance(fault, OSError):
            logger.error("the call of %s could not be handled", self.socket.name, exc_info=fault)


def _nothing_more(payload: Buffer) -> None:
    """What comes behind a call that has had its answer is not read."""


def _describe(connections: int, strangers: int) -> str:
    return (
        f"{strangers} connections to the listener for nodes have not proven yet that they are nodes ({STRANGERS_MAX} may be, "
        f"{STRANGERS_PER_SOURCE_MAX} of one address)"
    )


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
