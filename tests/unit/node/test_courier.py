"""Commands on their way to the leader of the metadata group: what is given up, and what is said again."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

import pytest

from broker.catalog.commands.metadata_entry import WhenAndWho
from broker.errors import BrokerError
from node.catalog.courier import BATCH_BYTES_MAX, TIMEOUT_S, Courier
from node.peers.calls import OnAnswer, Payload
from raft.core.errors import NotLeader, RaftError
from raft.core.messages import NodeId
from raft.requests import OnResults

ME = 1
HEAD = Struct("<BIQQQ")  # of an entry: version, node, incarnation, number, number before


class Group:
    """A member that takes what is proposed while it leads, and answers nothing. Fulfils node.catalog.courier.Group."""

    def __init__(self) -> None:
        self.leads = False
        self.proposed: list[bytes] = []
        self.out_of_reach: list[NodeId] = []
        self.refusal: RaftError | None = None

    def leader(self) -> tuple[NodeId, int]:
        return (ME, 2) if self.leads else (0, 1)

    def propose(self, commands: Sequence[bytes], on_results: OnResults) -> None:
        if self.refusal is not None:
            on_results(None, self.refusal)
        else:
            self.proposed += commands

    def missing(self) -> Sequence[NodeId]:
        return self.out_of_reach


class NoCalls:
    """No link to any other node. Fulfils node.catalog.courier.CourierCalls."""

    def ask(self, node: NodeId, topic: int, payload: Payload, on_answer: OnAnswer) -> None:
        raise AssertionError(f"node {node} is asked, which is not connected")

    def connected(self, node: NodeId) -> bool:
        return False


class Client:
    """Submits commands, and notes what it is told of them."""

    def __init__(self) -> None:
        self.group = Group()
        self.now = 0.0
        self.courier = Courier(ME, 1, self.group, NoCalls(), lambda: self.now, lambda node: f"n{node}", lambda: 1)
        self.told: list[str] = []

    def submit(self, command: bytes, *, patient: bool = False) -> None:
        def failed(error: BrokerError) -> None:
            self.told.append(str(error))

        self.courier.submit(command, WhenAndWho(5, 7), patient=patient).then(lambda _: None, failed)

    def numbers(self) -> list[int]:
        """Of the commands that were proposed."""
        return [HEAD.unpack_from(entry)[3] for entry in self.group.proposed]


@pytest.fixture
def client() -> Client:
    return Client()


def test_a_command_that_was_given_up_before_it_left_is_never_carried_out(client: Client) -> None:
    """A queue was declared minutes after its client had been told that nothing was decided."""
    client.submit(b"declare")
    client.now = TIMEOUT_S
    client.courier.tick()
    assert ["30 s" in text for text in client.told] == [True] and "may still be carried out" not in client.told[0]
    client.group.leads = True
    client.courier.tick()
    assert client.group.proposed == [] and client.courier.waiting == 0


def test_a_command_that_was_sent_is_said_again_though_nobody_waits_for_it(client: Client) -> None:
    """Those behind it say that they follow it."""
    client.group.leads = True
    client.submit(b"declare")
    client.now = TIMEOUT_S
    client.courier.send_again()
    client.courier.tick()
    assert [text.endswith("may still be carried out") for text in client.told] == [True]
    assert len(client.group.proposed) == 2 and len(set(client.group.proposed)) == 1


def test_what_was_sent_goes_again_before_what_was_submitted_since(client: Client) -> None:
    client.group.leads = True
    client.submit(b"first")
    client.group.leads = False
    client.courier.send_again()
    client.submit(b"second")
    client.group.leads = True
    client.courier.tick()
    assert client.numbers() == [1, 1, 2]


def test_a_command_that_was_sent_once_goes_again_though_it_was_given_up_while_it_waited_behind_another(
    client: Client,
) -> None:
    """What follows says that it follows it: without it nothing of this node was ever carried out again."""
    client.group.leads = True
    for _ in range(2):
        client.submit(bytes(BATCH_BYTES_MAX))
    client.group.refusal = NotLeader(0)
    client.courier.send_again()
    client.courier.pump()
    client.now = TIMEOUT_S
    client.courier.tick()
    assert len(client.told) == 2
    client.group.refusal = None
    client.submit(b"third")
    assert client.numbers() == [1, 2, 1, 2, 3]


def test_what_a_snapshot_brought_answers_all_up_to_the_last_command_that_it_has(client: Client) -> None:
    client.group.leads = True
    for number in range(3):
        client.submit(b"declare %d" % number)
    client.courier.overtaken(2)
    assert (client.courier.waiting, len(client.told)) == (1, 2)


def test_what_a_snapshot_brought_says_nothing_of_what_was_not_sent_yet(client: Client) -> None:
    client.submit(b"declare")
    client.courier.overtaken(7)
    assert (client.courier.waiting, client.told) == (1, [])


def test_a_patient_command_waits_for_a_majority_however_long_that_takes(client: Client) -> None:
    client.group.out_of_reach = [2, 3]
    client.submit(b"start", patient=True)
    client.now = 100 * TIMEOUT_S
    client.courier.tick()
    assert (client.told, client.courier.waiting) == ([], 1)
    client.group.leads, client.group.out_of_reach = True, []
    client.courier.tick()
    assert len(client.group.proposed) == 1
