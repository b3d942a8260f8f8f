"""Commands on their way to the leader of the metadata group: what is given up, and what is said again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from broker.errors import BrokerError
from node.catalog.courier import TIMEOUT_S, Courier
from node.catalog.metadata_entry import WhenAndWho
from node.peers.calls import OnAnswer, Payload
from raft.core.messages import NodeId
from raft.driver import OnResults

ME = 1


class Group:
    """A member that takes what is proposed while it leads, and answers nothing. Fulfils node.catalog.courier.Group."""

    def __init__(self) -> None:
        self.leads = False
        self.proposed: list[bytes] = []
        self.out_of_reach: list[NodeId] = []

    def leader(self) -> tuple[NodeId, int]:
        return (ME, 2) if self.leads else (0, 1)

    def propose(self, commands: Sequence[bytes], on_results: OnResults) -> None:
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


def test_a_patient_command_waits_for_a_majority_however_long_that_takes(client: Client) -> None:
    client.group.out_of_reach = [2, 3]
    client.submit(b"start", patient=True)
    client.now = 100 * TIMEOUT_S
    client.courier.tick()
    assert (client.told, client.courier.waiting) == ([], 1)
    client.group.leads, client.group.out_of_reach = True, []
    client.courier.tick()
    assert len(client.group.proposed) == 1
