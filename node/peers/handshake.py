"""How two nodes prove to each other that they belong to one cluster: both know its secret, and neither says it.

The calling node answers a challenge of the node it calls, so that what was overheard once is of no use again; and it checks an
answer to its own nonce, so that it does not talk to a stranger either. Challenges are not stored: each carries when it
was made, and a seal of this process. Only those that were answered rightly are remembered, until they expire.

Whoever can read and change what passes on the wire can still take over a connection that was proven: use TLS where that is
possible.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass

from raft.core.messages import NODE_ID_MAX, NodeId

NODE = "leveret-node"
CLUSTER = "leveret-cluster"
TO = "leveret-to"
INCARNATION = "leveret-incarnation"
CHALLENGE = "leveret-challenge"
NONCE = "leveret-nonce"
CONTENT = "leveret-content"
PROOF = "leveret-proof"

SECRET_BYTES_MIN = 16
CHALLENGE_LIFE_S = 10.0
NONCE_BYTES = 32

_SEAL_BYTES = 16
_NUMBER_DIGITS = 16
_INCARNATION_MAX = 2**64 - 1
_NUMBER_LENGTH_MAX = 20

Metadata = dict[str, str]


class NotProven(Exception):
    """The other side did not prove that it knows the secret, or is not who it should be; the text says what was wrong."""


@dataclass(slots=True, frozen=True)
class PeerIdentity:
    """Who a process is among its peers."""

    node: NodeId
    incarnation: int
    cluster_id: str = ""


class Secret:
    """What all nodes of a cluster know. Raises ValueError when it is too short to be one."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) < SECRET_BYTES_MIN:
            raise ValueError(
                f"the cluster's secret has {len(secret)} bytes; give at least {SECRET_BYTES_MIN}, random ones"
            )
        self._secret = secret

    def proof(self, role: str, *fields: str) -> str:
        """Over who says it and everything that was agreed on. No field may contain the separator."""
        assert not any("\n" in field for field in fields), f"{fields} cannot be told apart"
        text = "\n".join(("leveret peer", role, *fields)).encode()
        return hmac.new(self._secret, text, hashlib.sha256).hexdigest()

    def __repr__(self) -> str:
        return "Secret(...)"


class Calling:
    """One call's proof, of the node that calls."""

    def __init__(self, secret: Secret, me: PeerIdentity, to: NodeId, challenge: str, nonce: bytes) -> None:
        self._secret = secret
        self._agreed = (str(me.node), str(to), str(me.incarnation), challenge, nonce.hex(), me.cluster_id)

    def metadata(self) -> list[tuple[str, str]]:
        names = (NODE, TO, INCARNATION, CHALLENGE, NONCE, CLUSTER)
        return [*zip(names, self._agreed, strict=True), (PROOF, self._secret.proof("calls", *self._agreed))]

    def check_answer(self, metadata: Metadata) -> int:
        """The incarnation of the node that was reached. Raises NotProven."""
        incarnation = metadata.get(INCARNATION, "")
        expected = self._secret.proof("answers", *self._agreed, incarnation)
        if not hmac.compare_digest(expected.encode(), metadata.get(PROOF, "").encode()):
            raise NotProven("the node that was reached does not know this cluster's secret")
        return _number(INCARNATION, incarnation, _INCARNATION_MAX)


class StrangerCalling:
    """The proof of one call between nodes that need not have numbers yet, of the node that calls."""

    def __init__(self, secret: Secret, method: str, request: bytes, challenge: str, nonce: bytes) -> None:
        self._secret = secret
        self._agreed = (method, content_of(request), challenge, nonce.hex())

    def metadata(self) -> list[tuple[str, str]]:
        _, content, challenge, nonce = self._agreed
        proof = self._secret.proof("asks", *self._agreed)
        return [(CONTENT, content), (CHALLENGE, challenge), (NONCE, nonce), (PROOF, proof)]

    def check_answer(self, metadata: Metadata, answer: bytes) -> None:
        """Raises NotProven."""
        expected = self._secret.proof("replies", *self._agreed, content_of(answer))
        if not hmac.compare_digest(expected.encode(), metadata.get(PROOF, "").encode()):
            raise NotProven("the node that was reached does not know this cluster's secret")


def content_of(message: bytes) -> str:
    return hashlib.sha256(message).hexdigest()


class Gatekeeper:
    """The side that is called. `me` is None as long as this node belongs to no cluster: only strangers are let in then."""

    def __init__(
        self,
        secret: Secret,
        me: PeerIdentity | None,
        monotonic: Callable[[], float],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._secret = secret
        self.me = me
        self._monotonic = monotonic
        self._seal_key = random_bytes(32)
        self._random_bytes = random_bytes
        self._answered: dict[
            str, float
        ] = {}  # challenges that were answered rightly, and until when they are remembered

    def challenge(self) -> str:
        """A new one, to be answered once within CHALLENGE_LIFE_S."""
        made = f"{int(self._monotonic() * 1000):0{_NUMBER_DIGITS}x}{self._random_bytes(16).hex()}"
        return made + self._seal(made)

    def check(self, metadata: Metadata) -> PeerIdentity:
        """Who calls. Raises NotProven."""
        agreed = _agreed(metadata)
        node, to, incarnation, challenge, nonce, cluster_id = agreed
        if not challenge:
            raise NotProven("it answers no challenge")
        if any("\n" in field for field in agreed) or len(nonce) != 2 * NONCE_BYTES:
            raise NotProven("the hello is not that of a node")
        self._check_challenge(challenge)
        expected = self._secret.proof("calls", *agreed)
        if not hmac.compare_digest(expected.encode(), metadata.get(PROOF, "").encode()):
            raise NotProven("the proof is not that of a node which knows this cluster's secret")
        if self.me is None:
            raise NotProven("this node belongs to no cluster yet")
        if cluster_id != self.me.cluster_id:
            raise NotProven(
                f"this node belongs to cluster {self.me.cluster_id}, not to {cluster_id or 'one without id'}"
            )
        if to != str(self.me.node):
            raise NotProven(f"this is node {self.me.node}, not {to}: check the addresses of the nodes")
        self._answered[challenge] = self._monotonic() + CHALLENGE_LIFE_S
        return PeerIdentity(
            _number(NODE, node, NODE_ID_MAX), _number(INCARNATION, incarnation, _INCARNATION_MAX), cluster_id
        )

    def check_stranger(self, method: str, metadata: Metadata) -> None:
        """Raises NotProven. The request is still to be compared with what its metadata says: see `is_request`."""
        content, challenge, nonce = (metadata.get(name, "") for name in (CONTENT, CHALLENGE, NONCE))
        if not challenge:
            raise NotProven("it answers no challenge")
        if any("\n" in field for field in (content, challenge, nonce)) or len(nonce) != 2 * NONCE_BYTES:
            raise NotProven("the hello is not that of a node")
        self._check_challenge(challenge)
        expected = self._secret.proof("asks", method, content, challenge, nonce)
        if not hmac.compare_digest(expected.encode(), metadata.get(PROOF, "").encode()):
            raise NotProven("the proof is not that of a node which knows this cluster's secret")
        self._answered[challenge] = self._monotonic() + CHALLENGE_LIFE_S

    def is_request(self, metadata: Metadata, request: bytes) -> bool:
        """Whether it is the one that was proven."""
        return hmac.compare_digest(content_of(request).encode(), metadata[CONTENT].encode())

    def reply(self, method: str, metadata: Metadata, answer: bytes) -> list[tuple[str, str]]:
        """This node's own proof, for a stranger's call that was checked."""
        asked = (metadata[name] for name in (CONTENT, CHALLENGE, NONCE))
        return [(PROOF, self._secret.proof("replies", method, *asked, content_of(answer)))]

    def answer(self, metadata: Metadata) -> list[tuple[str, str]]:
        """This node's own proof, for a call that was checked."""
        assert self.me is not None, "a call was let in by a node that belongs to no cluster"
        incarnation = str(self.me.incarnation)
        return [(INCARNATION, incarnation), (PROOF, self._secret.proof("answers", *_agreed(metadata), incarnation))]

    def _check_challenge(self, challenge: str) -> None:
        made, seal = challenge[: -2 * _SEAL_BYTES], challenge[-2 * _SEAL_BYTES :]
        if not hmac.compare_digest(self._seal(made).encode(), seal.encode()):
            raise NotProven("this challenge is not of this process")
        now = self._monotonic()
        self._answered = {one: until for one, until in self._answered.items() if until > now}
        if now - int(made[:_NUMBER_DIGITS], 16) / 1000 > CHALLENGE_LIFE_S or challenge in self._answered:
            raise NotProven("this challenge has expired, or was answered before")

    def _seal(self, made: str) -> str:
        return hmac.new(self._seal_key, made.encode(), hashlib.sha256).digest()[:_SEAL_BYTES].hex()


def _agreed(metadata: Metadata) -> tuple[str, ...]:
    return tuple(metadata.get(name, "") for name in (NODE, TO, INCARNATION, CHALLENGE, NONCE, CLUSTER))


def _number(name: str, text: str, highest: int) -> int:
    if len(text) > _NUMBER_LENGTH_MAX or not (text.isascii() and text.isdecimal()) or not 0 < int(text) <= highest:
        raise NotProven(f"{name} is {text[:_NUMBER_LENGTH_MAX]!r}: it should be a number from 1 to {highest}")
    return int(text)
