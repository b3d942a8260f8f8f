"""Both sides prove that they know the secret, of this call and of no other."""

from __future__ import annotations

import itertools

import pytest

from node.peers import handshake as peer_handshake
from node.peers.handshake import SECRET_BYTES_MIN, Calling, Gatekeeper, NotProven, PeerIdentity, Secret, StrangerCalling

SECRET = Secret(b"a secret that both sides know")
OTHER = Secret(b"a secret of somebody else")
CALLER, CALLED = PeerIdentity(2, 222), PeerIdentity(1, 111)
NONCE = bytes(peer_handshake.NONCE_BYTES)


class World:
    def __init__(self, secret: Secret = SECRET) -> None:
        self.now = 100.0
        self._drawn = itertools.count(1)
        self.gatekeeper = Gatekeeper(secret, CALLED, lambda: self.now, self._random_bytes)

    def _random_bytes(self, count: int) -> bytes:
        return next(self._drawn).to_bytes(count, "big")


def metadata_of(calling: Calling) -> dict[str, str]:
    return dict(calling.metadata())


def test_a_node_that_answers_its_challenge_is_let_in_and_sees_an_answer() -> None:
    world = World()
    calling = Calling(SECRET, CALLER, CALLED.node, world.gatekeeper.challenge(), NONCE)
    metadata = metadata_of(calling)
    assert world.gatekeeper.check(metadata) == CALLER
    assert calling.check_answer(dict(world.gatekeeper.answer(metadata))) == CALLED.incarnation


def test_a_challenge_counts_once() -> None:
    world = World()
    metadata = metadata_of(Calling(SECRET, CALLER, CALLED.node, world.gatekeeper.challenge(), NONCE))
    world.gatekeeper.check(metadata)
    with pytest.raises(NotProven, match="answered before"):
        world.gatekeeper.check(metadata)


def test_a_challenge_counts_for_a_few_seconds() -> None:
    world = World()
    metadata = metadata_of(Calling(SECRET, CALLER, CALLED.node, world.gatekeeper.challenge(), NONCE))
    world.now += peer_handshake.CHALLENGE_LIFE_S + 0.1
    with pytest.raises(NotProven, match="expired"):
        world.gatekeeper.check(metadata)


def test_a_challenge_of_another_process_or_a_made_up_one_is_refused() -> None:
    other = World()
    other._random_bytes(1)
    metadata = metadata_of(Calling(SECRET, CALLER, CALLED.node, "0" * 80, NONCE))
    with pytest.raises(NotProven, match="not of this process"):
        World().gatekeeper.check(metadata)


def test_who_does_not_know_the_secret_is_refused_on_either_side() -> None:
    world = World()
    calling = Calling(OTHER, CALLER, CALLED.node, world.gatekeeper.challenge(), NONCE)
    with pytest.raises(NotProven, match="knows this cluster's secret"):
        world.gatekeeper.check(metadata_of(calling))
    impostor = World(OTHER)
    calling = Calling(SECRET, CALLER, CALLED.node, impostor.gatekeeper.challenge(), NONCE)
    with pytest.raises(NotProven, match="does not know this cluster's secret"):
        calling.check_answer(dict(impostor.gatekeeper.answer(metadata_of(calling))))


@pytest.mark.parametrize(
    "name", [peer_handshake.NODE, peer_handshake.TO, peer_handshake.INCARNATION, peer_handshake.NONCE]
)
def test_nothing_that_was_proven_can_be_exchanged(name: str) -> None:
    world = World()
    metadata = metadata_of(Calling(SECRET, CALLER, CALLED.node, world.gatekeeper.challenge(), NONCE))
    metadata[name] = "3" * len(metadata[name])
    with pytest.raises(NotProven, match="knows this cluster's secret"):
        world.gatekeeper.check(metadata)


def test_an_answer_to_another_call_proves_nothing() -> None:
    world = World()
    first = Calling(SECRET, CALLER, CALLED.node, world.gatekeeper.challenge(), NONCE)
    second = Calling(SECRET, CALLER, CALLED.node, world.gatekeeper.challenge(), bytes(31) + b"x")
    with pytest.raises(NotProven):
        second.check_answer(dict(world.gatekeeper.answer(metadata_of(first))))


def test_a_call_for_another_node_is_told_whom_it_reached() -> None:
    world = World()
    calling = Calling(SECRET, CALLER, 3, world.gatekeeper.challenge(), NONCE)
    with pytest.raises(NotProven, match="this is node 1, not 3"):
        world.gatekeeper.check(metadata_of(calling))


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {peer_handshake.CHALLENGE: ""},
        {peer_handshake.CHALLENGE: "x"},
        {peer_handshake.CHALLENGE: "x" * 4000, peer_handshake.NONCE: "0" * 64},
        {peer_handshake.NODE: "1\n2", peer_handshake.CHALLENGE: "x", peer_handshake.NONCE: "0" * 64},
    ],
)
def test_metadata_that_is_not_a_nodes_is_refused(metadata: dict[str, str]) -> None:
    with pytest.raises(NotProven):
        World().gatekeeper.check(metadata)


@pytest.mark.parametrize("node", ["0", "-1", "4294967296", "1" * 30, "x", "٣"])
def test_a_number_that_is_no_nodes_is_refused_even_with_a_proof(node: str) -> None:
    world = World()
    agreed = (node, "1", "222", world.gatekeeper.challenge(), NONCE.hex(), "")
    names = (
        peer_handshake.NODE,
        peer_handshake.TO,
        peer_handshake.INCARNATION,
        peer_handshake.CHALLENGE,
        peer_handshake.NONCE,
        peer_handshake.CLUSTER,
    )
    metadata = dict(zip(names, agreed, strict=True)) | {peer_handshake.PROOF: SECRET.proof("calls", *agreed)}
    with pytest.raises(NotProven, match="leveret-node"):
        world.gatekeeper.check(metadata)


def test_a_secret_that_is_too_short_is_refused_and_none_is_ever_shown() -> None:
    with pytest.raises(ValueError, match="15 bytes"):
        Secret(bytes(15))
    Secret(bytes(SECRET_BYTES_MIN))
    assert "know" not in repr(SECRET)


def test_a_node_of_another_cluster_with_the_same_secret_is_told_which_cluster_this_is() -> None:
    world = World()
    world.gatekeeper.me = PeerIdentity(1, 111, "c1")
    calling = Calling(SECRET, PeerIdentity(2, 222, "c2"), 1, world.gatekeeper.challenge(), NONCE)
    with pytest.raises(NotProven, match="this node belongs to cluster c1, not to c2"):
        world.gatekeeper.check(metadata_of(calling))


def test_a_blank_node_lets_in_strangers_that_know_the_secret_and_no_node() -> None:
    world = World()
    world.gatekeeper.me = None
    calling = Calling(SECRET, CALLER, CALLED.node, world.gatekeeper.challenge(), NONCE)
    with pytest.raises(NotProven, match="belongs to no cluster yet"):
        world.gatekeeper.check(metadata_of(calling))
    stranger = StrangerCalling(SECRET, "Join", b"let me in", world.gatekeeper.challenge(), NONCE)
    metadata = dict(stranger.metadata())
    world.gatekeeper.check_stranger("Join", metadata)
    assert world.gatekeeper.is_request(metadata, b"let me in")
    assert not world.gatekeeper.is_request(metadata, b"let me out")
    stranger.check_answer(dict(world.gatekeeper.reply("Join", metadata, b"welcome")), b"welcome")
    with pytest.raises(NotProven, match="does not know"):
        stranger.check_answer(dict(world.gatekeeper.reply("Join", metadata, b"welcome")), b"go away")
    with pytest.raises(NotProven, match="answered before"):
        world.gatekeeper.check_stranger("Join", metadata)


@pytest.mark.parametrize(
    ("secret", "method", "said"),
    [(SECRET, "Greet", "the proof is not"), (OTHER, "Join", "the proof is not")],
)
def test_a_stranger_s_proof_is_for_one_method_and_by_one_secret(secret: Secret, method: str, said: str) -> None:
    world = World()
    stranger = StrangerCalling(secret, "Join", b"let me in", world.gatekeeper.challenge(), NONCE)
    with pytest.raises(NotProven, match=said):
        world.gatekeeper.check_stranger(method, dict(stranger.metadata()))


def test_a_node_without_cluster_id_is_told_which_cluster_this_is() -> None:
    world = World()
    world.gatekeeper.me = PeerIdentity(1, 111, "c1")
    calling = Calling(SECRET, PeerIdentity(2, 222, ""), 1, world.gatekeeper.challenge(), NONCE)
    with pytest.raises(NotProven, match="not to one without id"):
        world.gatekeeper.check(metadata_of(calling))


@pytest.mark.parametrize("nonce", [NONCE[1:], NONCE + b"x", b""])
def test_a_nonce_of_another_length_is_refused_though_the_proof_is_right(nonce: bytes) -> None:
    """A short one could come twice, and the proof that answers it be replayed."""
    world = World()
    calling = Calling(SECRET, CALLER, CALLED.node, world.gatekeeper.challenge(), nonce)
    with pytest.raises(NotProven, match="not that of a node"):
        world.gatekeeper.check(metadata_of(calling))
    stranger = StrangerCalling(SECRET, "Join", b"let me in", world.gatekeeper.challenge(), nonce)
    with pytest.raises(NotProven, match="not that of a node"):
        world.gatekeeper.check_stranger("Join", dict(stranger.metadata()))
