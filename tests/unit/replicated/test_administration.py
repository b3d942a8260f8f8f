"""What operators ask of a quorum queue's group, on any node."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import pytest

from broker.errors import BrokerError, NotFound, PreconditionFailed, ResourceExhausted
from broker.pending import Pending
from broker.records import QueueRecord
from native.content import messages
from quorum.fifo.commands import ConsumerKey, Piece
from quorum.fifo.effects import Deliver
from quorum.leading import ATTENDED_MS, Leading
from raft.core.errors import Damaged, NotLeader
from raft.core.membership import RemoveMember
from raft.core.messages import MemberId, member_id
from replicated.administration import What
from replicated.letters import AnswerStatus, BadLetter, admin, admin_answer, decode_admin_answer
from replicated.roll_call import WITHIN_S
from storage.errors import DiskFull
from tests.unit.quorum.clients import Clients, Publisher


def failure_of(clients: Clients, asked: Pending[None]) -> BrokerError:
    told: list[BrokerError] = []
    asked.then(lambda _: pytest.fail("nothing was wrong"), told.append)
    clients.cluster.run(1)
    (error,) = told
    return error


def led_by_node_1(members: int, *, nodes: int = 0) -> tuple[Clients, QueueRecord]:
    """A queue with members on the first nodes, of which all others know by now who leads."""
    clients = Clients(nodes or members)
    record = clients.cluster.declare("q", list(range(1, members + 1)), home=1)
    assert clients.cluster.leader(record).number == 1
    clients.cluster.run(0.5)
    return clients, record


@pytest.mark.parametrize("node", [1, 2])
def test_who_asks_for_a_member_that_is_not_there_or_there_already_is_told(node: int) -> None:
    clients, record = led_by_node_1(2, nodes=3)
    kind, queue = clients.of(node, record)
    assert isinstance(failure_of(clients, kind.administration.add_member(queue, 2)), PreconditionFailed)
    missing = failure_of(clients, kind.administration.remove_member(queue, 3))
    assert isinstance(missing, NotFound | PreconditionFailed)
    assert "queue 'q' in vhost '/' has no member on node '3'" in missing.text


def test_without_a_leader_nothing_is_changed() -> None:
    clients = Clients()
    record = clients.cluster.declare("q", [1, 2, 3])
    kind, queue = clients.of(1, record)
    error = failure_of(clients, kind.administration.transfer(queue, 2))
    assert isinstance(error, ResourceExhausted)
    assert "has no leader" in error.text


def test_a_node_without_a_member_that_asks_the_wrong_one_asks_the_leader_next() -> None:
    """It asked the wrong one again and again: nobody told it who leads, and its clients, who would have, were not there."""
    clients, record = led_by_node_1(3, nodes=4)
    kind, queue = clients.of(4, record)
    queue.route.refused(AnswerStatus.NOT_LEADER, 2)
    error = failure_of(clients, kind.administration.transfer(queue, 3))
    assert isinstance(error, ResourceExhausted)
    assert error.text == "queue 'q' in vhost '/' is led by another node now: try again"
    done: list[object] = []
    kind.administration.transfer(queue, 3).then(done.append, done.append)
    clients.cluster.run(2)
    assert done == [None]
    assert clients.cluster.leader(record).number == 3


def test_a_leader_that_does_not_answer_is_not_asked_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clients, record = led_by_node_1(3, nodes=4)
    kind, queue = clients.of(4, record)
    queue.route.refused(AnswerStatus.NOT_LEADER, 1)
    asked: list[int] = []

    def silence(node: int, topic: int, letter: Any, on_answer: Callable[[bytes | None], None]) -> None:
        asked.append(node)
        on_answer(None)

    monkeypatch.setattr(kind.administration._ports.calls, "ask", silence)
    for _ in range(2):
        error = failure_of(clients, kind.administration.transfer(queue, 3))
        assert error.text == "the leader of queue 'q' in vhost '/' did not answer: try again"
    assert asked[0] == 1 and asked[1] != 1


def promised_late(
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[Clients, QueueRecord, list[BrokerError], Callable[[MemberId], None]]:
    """A member for node 3 is asked for, and the node says under which number when the test does."""
    clients, record = led_by_node_1(2, nodes=3)
    kind, queue = clients.of(1, record)
    asked: list[Callable[[bytes | None], None]] = []
    ask = kind.administration._ports.calls.ask
    with monkeypatch.context() as patch:
        patch.setattr(kind.administration._ports.calls, "ask", lambda *arguments: asked.append(arguments[-1]))
        told: list[BrokerError] = []
        kind.administration.add_member(queue, 3).then(lambda _: pytest.fail("it was added"), told.append)
    assert kind.administration._ports.calls.ask == ask
    (answer,) = asked
    return clients, record, told, lambda member: answer(admin_answer(AnswerStatus.DONE, 1, str(member)))


def test_a_queue_that_is_deleted_while_a_node_is_asked_for_a_number_gets_no_member(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clients, record, told, promise = promised_late(monkeypatch)
    kind, queue = clients.of(1, record)
    kind.delete(queue, clients.now)
    promise(member_id(3, 9))
    clients.cluster.run(1)
    assert [(type(error), error.text) for error in told] == [(NotFound, "no queue 'q' in vhost '/'")]


def test_a_leader_that_leads_no_more_when_it_hears_the_number_of_a_member_adds_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clients, record, told, promise = promised_late(monkeypatch)
    monkeypatch.setattr(type(clients.of(1, record)[1].route), "leads", False)
    promise(member_id(3, 9))
    assert [(type(error), error.text) for error in told] == [
        (ResourceExhausted, "the leadership has just changed: try again")
    ]


def test_a_leadership_that_the_group_does_not_hand_over_is_to_be_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clients, record = led_by_node_1(3)
    kind, queue = clients.of(1, record)

    def refuse(group: int, member: MemberId) -> None:
        raise NotLeader(2)

    monkeypatch.setattr(kind.administration._ports.groups, "transfer", refuse)
    error = failure_of(clients, kind.administration.transfer(queue, 2))
    assert (type(error), error.text) == (ResourceExhausted, "the leadership has just changed: try again")


def asked_by_another_node(
    clients: Clients, record: QueueRecord, letter: bytes, *, known: bool = True
) -> tuple[AnswerStatus, int, str]:
    kind, queue = clients.of(1, record)
    answers: list[Any] = []
    kind.administration.asked(queue if known else None, letter, answers.append)
    (answer,) = answers
    return decode_admin_answer(answer if isinstance(answer, bytes) else b"".join(answer))


def test_a_node_that_does_not_know_the_queue_says_so_and_nobody_waits_for_it() -> None:
    clients, record = led_by_node_1(1)
    for what in What:
        answer = asked_by_another_node(clients, record, admin(1, what, 1), known=False)
        assert answer[0] is AnswerStatus.NO_GROUP


def test_a_node_that_can_keep_no_number_for_a_member_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    clients, record = led_by_node_1(1)

    def no_room(queue: Any) -> MemberId:
        raise DiskFull("cannot write node.facts: No space left on device")

    monkeypatch.setattr(clients.of(1, record)[0].administration, "_promise_member", no_room)
    status, _, text = asked_by_another_node(clients, record, admin(1, What.PROMISE, 0))
    assert status is AnswerStatus.AGAIN
    assert text.startswith("no number for another member can be kept: cannot write node.facts")


def test_what_a_later_version_asks_for_is_not_taken_for_something_else() -> None:
    clients, record = led_by_node_1(1)
    with pytest.raises(BadLetter, match="an ADMIN that asks for 99"):
        asked_by_another_node(clients, record, admin(1, 99, 1))


def test_a_number_of_another_node_than_the_one_that_gave_it_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group would have waited for a member that nobody has."""
    clients, record, told, promise = promised_late(monkeypatch)
    promise(member_id(2, 9))
    clients.cluster.run(1)
    assert [type(error) for error in told] == [ResourceExhausted]
    assert "node '3' does not say which member of queue 'q' in vhost '/' it will have" in told[0].text
    driver = clients.of(1, record)[1].route.driver
    assert driver is not None and not driver.core.status().membership.promotable


def test_a_member_that_its_node_had_before_is_not_there_though_the_node_is() -> None:
    clients, record = led_by_node_1(3)
    kind, queue = clients.of(1, record)
    driver = queue.route.driver
    assert driver is not None
    there: list[bool] = []
    for member in (driver.me, member_id(1, 10_000)):
        kind.administration._is_there(queue, driver, member).then(there.append, pytest.fail)
    assert there == [True, False]


def test_status_has_the_figures_of_member_and_machine() -> None:
    clients = Clients()
    record = clients.cluster.declare("q", [1, 2, 3])
    clients.cluster.leader(record)
    Publisher(clients, 2, record).publish(3)
    clients.cluster.run(0.5)
    statuses = [clients.of(node, record)[0].administration.status(clients.of(node, record)[1]) for node in (1, 2, 3)]
    assert sorted(status["raft"]["role"] for status in statuses) == ["follower", "follower", "leader"]
    assert {status["machine"]["digest"] for status in statuses} == {statuses[0]["machine"]["digest"]}
    assert [status["machine"]["ready"] for status in statuses] == [3, 3, 3]
    assert len({status["leader_node"] for status in statuses}) == 1


def test_any_node_is_told_the_figures_of_any_member() -> None:
    clients = Clients(4)
    record = clients.cluster.declare("q", [1, 2, 3], home=1)
    assert clients.cluster.leader(record).number == 1
    Publisher(clients, 2, record).publish(3)
    clients.cluster.run(0.5)
    clients.cluster.nodes[3].kill()
    clients.cluster.run(2)
    kind, queue = clients.of(4, record)
    found: list[dict[str, Any] | None] = []
    for node in (1, 2, 3, 4):
        kind.administration.figures(queue, node).then(found.append, pytest.fail)
        clients.cluster.run(0.1)
    leads, follows, lost, has_none = found
    assert lost is None
    assert has_none is not None and "raft" not in has_none
    assert leads is not None and follows is not None
    assert leads["raft"]["commit"] == follows["raft"]["commit"]
    assert {one["suspected"] for one in leads["raft"]["followers"]} == {True, False}
    assert follows["machine"]["ready"] == 3


def test_a_voter_without_which_the_others_could_not_go_on_is_kept_unless_it_is_insisted() -> None:
    clients, record = led_by_node_1(3)
    clients.cluster.nodes[3].kill()
    clients.cluster.run(2)
    kind, queue = clients.of(1, record)
    error = failure_of(clients, kind.administration.remove_member(queue, 2))
    assert isinstance(error, PreconditionFailed)
    assert "would have no majority that can be reached: of the others these are away: 3" in error.text
    done: list[object] = []
    kind.administration.remove_member(queue, 3).then(done.append, done.append)
    clients.cluster.run(3)
    assert done == [None]
    kind.administration.remove_member(queue, 2, anyway=True).then(done.append, done.append)
    clients.cluster.run(3)
    assert done == [None, None]
    last = failure_of(clients, kind.administration.remove_member(queue, 1))
    assert "the last voter" in last.text


@pytest.mark.parametrize("asked", [1, 2])
def test_who_insists_has_a_voter_removed_without_whom_too_few_can_be_reached(
    monkeypatch: pytest.MonkeyPatch, asked: int
) -> None:
    """Also where another node than the leader's is asked."""
    clients, record = led_by_node_1(3)
    clients.cluster.nodes[3].kill()
    clients.cluster.run(2)
    changes: list[object] = []
    monkeypatch.setattr(clients.cluster.nodes[1].groups, "change", lambda group, change, told: changes.append(change))
    kind, queue = clients.of(asked, record)
    kind.administration.remove_member(queue, 2, anyway=True).then(lambda _: None, lambda error: pytest.fail(error.text))
    clients.cluster.run(WITHIN_S)
    assert changes == [RemoveMember(record.members[1])]


def test_what_may_be_asked_again_is_known_as_such_on_the_node_that_has_passed_it_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clients, record = led_by_node_1(3)
    text = "another change of the members is not committed yet: try again"
    leader, _ = clients.of(1, record)
    monkeypatch.setattr(leader.administration, "_do", lambda *asked: asked[-1](ResourceExhausted(text)))
    kind, queue = clients.of(2, record)
    error = failure_of(clients, kind.administration.remove_member(queue, 3))
    assert (type(error), error.text) == (ResourceExhausted, text)


def test_a_leadership_is_handed_to_who_has_it_already_without_asking_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    clients, record = led_by_node_1(3)
    kind, queue = clients.of(1, record)
    monkeypatch.setattr(clients.cluster.nodes[1].groups, "transfer", lambda *_: pytest.fail("the group was asked"))
    done: list[object] = []
    kind.administration.transfer(queue, 1).then(done.append, done.append)
    assert done == [None]


def test_a_voter_is_kept_where_another_one_has_just_gone_and_nobody_knows_it_yet() -> None:
    """Seen with real processes, one of them stopped: the removal was taken, could not be committed without the one that was
    away, and by the time that this was known nobody could lead any more until it was back."""
    clients, record = led_by_node_1(3)
    cluster = clients.cluster
    kind, queue = clients.of(1, record)
    cluster.silent.add(3)
    told: list[BrokerError] = []
    assert clients.cluster.nodes[1].groups.trusts(3)
    kind.administration.remove_member(queue, 2).then(lambda _: pytest.fail("it was removed"), told.append)
    cluster.run(WITHIN_S + 0.1)
    assert [type(error) for error in told] == [PreconditionFailed]
    assert "of the others these are away: 3" in told[0].text
    Publisher(clients, 2, record).publish(3)
    cluster.run(1)
    assert clients.drain(1, record) == [b"0", b"1", b"2"]


def test_a_queue_that_is_deleted_while_its_members_are_asked_loses_none_of_them() -> None:
    clients, record = led_by_node_1(3)
    cluster = clients.cluster
    kind, queue = clients.of(1, record)
    told: list[BrokerError] = []
    kind.administration.remove_member(queue, 2).then(lambda _: pytest.fail("it was removed"), told.append)
    kind.delete(queue, clients.now)
    cluster.run(1)
    assert [(type(error), error.text) for error in told] == [(NotFound, "no queue 'q' in vhost '/'")]


def test_a_member_that_is_being_repaired_is_not_there_though_its_node_is() -> None:
    """The removal of another voter was taken, waited for the one that is no more, and let no new one in: for ever."""
    clients, record = led_by_node_1(3)
    cluster = clients.cluster
    kind, queue = clients.of(1, record)
    cluster.nodes[3].groups.damaged(queue.group, Damaged("entry 1 cannot be read"))
    cluster.run(0.002)
    told: list[object] = []
    kind.administration.remove_member(queue, 2).then(told.append, told.append)
    cluster.run(WITHIN_S + 3)
    (answer,) = told
    assert answer is None or isinstance(answer, ResourceExhausted)
    Publisher(clients, 1, record).publish(3)
    cluster.run(1)
    assert clients.drain(1, record) == [b"0", b"1", b"2"]


def test_of_two_removals_at_once_the_second_counts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counted on the member that the first one had removed, and would have left a majority that was not there."""
    clients, record = led_by_node_1(4)
    cluster = clients.cluster
    kind, queue = clients.of(1, record)
    cluster.silent.add(4)
    figures, late = kind.administration.figures, Pending[dict[str, Any] | None]()
    monkeypatch.setattr(kind.administration, "figures", lambda queue, node: late if node == 2 else figures(queue, node))
    told: list[object] = []
    for node in (2, 3):
        kind.administration.remove_member(queue, node).then(told.append, told.append)
    cluster.run(1)
    assert told == [None]
    late.resolve({"raft": {"member": record.members[1]}})
    cluster.run(WITHIN_S)
    assert isinstance(told[1], ResourceExhausted)
    assert told[1].text == "the members have changed meanwhile: try again"
    Publisher(clients, 1, record).publish(3)
    cluster.run(1)
    assert clients.drain(1, record) == [b"0", b"1", b"2"]


def test_a_removal_is_put_off_where_the_member_that_counted_the_others_is_not_the_one_that_leads_now() -> None:
    """It counts on the members that it knew: those of its successor may be others."""
    clients, record = led_by_node_1(3)
    kind, queue = clients.of(1, record)
    told: list[object] = []
    kind.administration.remove_member(queue, 2).then(told.append, told.append)
    queue.route.driver = copy(queue.route.driver)
    clients.cluster.run(3)
    assert [str(error) for error in told] == ["the leadership has just changed: try again"]
    assert clients.cluster.records[record.id].members == record.members


def test_any_node_shows_what_is_in_the_queue() -> None:
    clients = Clients(4)
    record = clients.cluster.declare("q", [1, 2, 3])
    clients.cluster.leader(record)
    Publisher(clients, 2, record).publish(5)
    Publisher(clients, 2, record, name="other-").publish(2, priority=9)
    clients.cluster.run(0.5)
    for node in (1, 3, 4):
        queue = clients.cluster.nodes[node].queue(record)
        told: list[Any] = []
        queue.browse(1, 4, clients.now).then(told.extend, told.append)
        clients.cluster.run(0.1)
        assert [messages(one.content, 0, 1)[0][1] for one in told] == [b"other-1", b"0", b"1", b"2"]
    for node in (1, 2, 3):
        clients.cluster.cut(4, node)
    queue = clients.cluster.nodes[4].queue(record)
    queue.browse(0, 1, clients.now).then(told.append, told.append)
    assert told[-1].text == "no node with a member of queue 'q' in vhost '/' can be asked what is in it"


def test_the_catalog_is_told_of_a_change_when_it_is_committed() -> None:
    """Nobody but the leader has it yet: a later one may never hear of it."""
    clients, record = led_by_node_1(3)
    queue = clients.of(1, record)[1]
    told: list[tuple[MemberId, ...]] = []
    clients.cluster.nodes[1].set_members = lambda record, members, formed, anew: told.append(members)
    driver, leading = queue.route.driver, queue.leading
    assert driver is not None and leading is not None
    driver.core.change(RemoveMember(record.members[2]), clients.cluster.loop.time())
    assert driver.core.status().change_pending
    leading.check_record()
    assert told == []


def test_a_node_that_asks_no_more_is_served_no_more() -> None:
    clients, record = led_by_node_1(3, nodes=4)
    leading = clients.of(1, record)[1].leading
    assert leading is not None
    leading.attend(4, 1, [])
    clients.cluster.run(ATTENDED_MS / 1000 - 1)
    assert leading.serves(4)
    clients.cluster.run(3)
    assert not leading.serves(4)
    assert clients.of(1, record)[1].leading is leading


def processes_sent_to(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by the incarnation of whose consumer each delivery is for."""
    sent: list[int] = []
    monkeypatch.setattr(
        Leading, "_send", lambda leading, node, attendant, effect: sent.append(effect.consumer.incarnation)
    )
    return sent


def test_a_node_that_asks_again_as_another_process_is_served_as_that_and_told_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What its process before was told, and how far its consumers had come, says nothing of this one."""
    clients, record = led_by_node_1(3, nodes=4)
    leading = clients.of(1, record)[1].leading
    assert leading is not None
    sent = processes_sent_to(monkeypatch)
    told: list[int] = []
    monkeypatch.setattr(leading._ports.calls, "tell", lambda node, topic, letter: told.append(node))
    for incarnation in (7, 8):
        leading.attend(4, incarnation, [])
    for incarnation in (7, 8):
        leading.deliver(Deliver(ConsumerKey(4, incarnation, 1), 1, Piece(1, 0, 0, 1), 0, 0))
    assert (sent, told) == ([8], [4, 4])


def test_what_is_out_to_an_earlier_process_is_not_sent_to_the_one_that_runs_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both number their consumers and deliveries from the same on."""
    clients, record = led_by_node_1(3, nodes=4)
    leading = clients.of(1, record)[1].leading
    assert leading is not None
    sent = processes_sent_to(monkeypatch)
    leading.attend(4, 7, [])
    for incarnation in (6, 7):
        leading.deliver(Deliver(ConsumerKey(4, incarnation, 1), 1, Piece(1, 0, 0, 1), 0, 0))
    assert sent == [7]
