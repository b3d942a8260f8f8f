"""Who is trusted, who is suspected, and when: with the numbers of the settings below."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from raft.failure_detector import DetectorSettings, FailureDetector, TrustChange
from raft.transport import Sign

SETTINGS = DetectorSettings(ping_interval_s=0.2, silence_s=0.8, answer_s=2.0)
US, THEM = 1, 2
Cut = Callable[[int, Sign], bool]  # (receiver, sign): is it lost?


class Pair:
    """Two nodes that exchange signs at once, unless they are cut."""

    def __init__(self) -> None:
        self.now = 0.0
        self.nodes = {US: FailureDetector(10, SETTINGS, 0.0), THEM: FailureDetector(20, SETTINGS, 0.0)}
        self.lost: Cut = lambda receiver, sign: False
        self.verdicts: list[TrustChange] = []
        self.nodes[US].add(THEM, 0.0)
        self.nodes[THEM].add(US, 0.0)

    def settle(self) -> None:
        """Carry signs until none is left, and note what our side thinks."""
        moved = True
        while moved:
            moved = False
            for sender, detector in self.nodes.items():
                for receiver, sign in detector.take_signs():
                    moved = True
                    if not self.lost(receiver, sign):
                        self.nodes[receiver].heard_sign(sender, sign, self.now)
        self.verdicts += self.nodes[US].take_verdicts()
        self.nodes[THEM].take_verdicts()

    def run_until(self, then: float) -> None:
        while True:
            deadlines = [detector.deadline for detector in self.nodes.values()]
            due = min(deadline for deadline in [*deadlines, then + 1] if deadline is not None)
            if due > then:
                break
            self.now = max(self.now, due)
            for detector in self.nodes.values():
                detector.tick(self.now)
            self.settle()
        self.now = then


def test_a_peer_is_suspected_until_its_first_answer() -> None:
    pair = Pair()
    assert not pair.nodes[US].trusts(THEM)
    pair.run_until(0.0)
    assert pair.nodes[US].trusts(THEM)
    assert pair.verdicts == [TrustChange(THEM, True)]


def test_the_round_trip_is_that_of_the_last_answer() -> None:
    detector = FailureDetector(10, SETTINGS, 0.0)
    detector.add(THEM, 0.0)
    assert detector.round_trip_s(THEM) is None
    detector.tick(0.0)
    detector.heard_sign(THEM, Sign(True, 20, 1, 10), 0.25)
    detector.heard_sign(THEM, Sign(True, 20, 1, 10), 0.5)  # said twice
    assert detector.round_trip_s(THEM) is None  # a new process is asked anew
    detector.heard_sign(THEM, Sign(True, 20, 2, 10), 0.5)
    assert detector.round_trip_s(THEM) == 0.25


def test_nothing_is_said_while_all_is_well() -> None:
    pair = Pair()
    pair.run_until(60.0)
    assert pair.verdicts == [TrustChange(THEM, True)]


@pytest.mark.parametrize("deaf", [US, THEM])
def test_who_hears_nothing_suspects_within_a_second_and_who_is_not_heard_soon_after(deaf: int) -> None:
    pair = Pair()
    pair.run_until(1.0)
    pair.lost = lambda receiver, sign: receiver == deaf
    heard = THEM if deaf == US else US
    pair.run_until(1.0 + 0.8 + 0.2)
    assert not pair.nodes[deaf].trusts(heard)
    assert pair.nodes[heard].trusts(deaf)
    pair.run_until(1.0 + 2.0 + 0.2)
    assert not pair.nodes[heard].trusts(deaf)


def test_a_busy_peer_whose_answers_come_late_is_no_suspect_while_it_is_heard() -> None:
    pair = Pair()
    pair.run_until(1.0)
    pair.lost = lambda receiver, sign: sign.is_pong
    while pair.now < 2.5:
        pair.run_until(pair.now + 0.3)
        pair.nodes[US].heard(THEM, pair.now)
    pair.lost = lambda receiver, sign: False
    pair.run_until(5.0)
    assert pair.verdicts == [TrustChange(THEM, True)]


def test_one_lost_ping_is_no_suspicion() -> None:
    pair = Pair()
    pair.run_until(1.0)
    pair.lost = lambda receiver, sign: pair.now < 1.5
    pair.run_until(5.0)
    assert pair.verdicts == [TrustChange(THEM, True)]


def test_a_lost_connection_is_suspicion_at_once_and_an_answer_over_the_next_one_is_trust() -> None:
    pair = Pair()
    pair.run_until(1.0)
    pair.nodes[US].disconnected(THEM)
    pair.settle()
    assert pair.verdicts[1:] == [TrustChange(THEM, False)]
    pair.nodes[US].connected(THEM, pair.now)
    pair.settle()
    assert pair.verdicts[1:] == [TrustChange(THEM, False), TrustChange(THEM, True)]


def asked_again() -> tuple[FailureDetector, Sign]:
    """One that knows the process of a peer and trusts it, at 0.3, and its ping of that moment."""
    detector = FailureDetector(10, SETTINGS, 0.0)
    detector.add(THEM, 0.0)
    detector.tick(0.0)
    for _ in ("a process that was not known is asked again", "and trusted"):
        ping = detector.take_signs()[-1][1]
        detector.heard_sign(THEM, Sign(True, 20, ping.number, 10), 0.0)
    assert detector.trusts(THEM)
    detector.tick(0.3)
    ((_, ping),) = detector.take_signs()
    return detector, ping


def test_an_answer_to_a_ping_of_before_the_connection_was_lost_is_no_trust() -> None:
    detector, ping = asked_again()
    detector.disconnected(THEM)
    detector.heard_sign(THEM, Sign(True, 20, ping.number, 10), 0.4)
    assert not detector.trusts(THEM)


def test_an_answer_that_comes_twice_counts_once() -> None:
    detector, ping = asked_again()
    for now in (0.4, 0.7):
        detector.heard_sign(THEM, Sign(True, 20, ping.number, 10), now)
        assert detector.round_trip_s(THEM) == pytest.approx(0.1)


def test_a_peer_that_is_added_is_asked_though_the_others_are_not_due() -> None:
    detector, _ = asked_again()
    detector.add(3, 0.35)
    assert detector.deadline == 0.35


def test_a_new_process_of_a_peer_is_suspected_and_then_trusted() -> None:
    pair = Pair()
    pair.run_until(1.0)
    pair.nodes[THEM] = FailureDetector(21, SETTINGS, pair.now)
    pair.nodes[THEM].add(US, pair.now)
    pair.nodes[THEM].tick(pair.now)
    pair.settle()
    assert pair.verdicts[1:] == [TrustChange(THEM, False, restarted=True), TrustChange(THEM, True)]


def test_that_a_peer_is_another_process_is_said_also_when_it_was_suspected_before() -> None:
    pair = Pair()
    pair.run_until(1.0)
    pair.nodes[US].disconnected(THEM)
    pair.nodes[THEM] = FailureDetector(21, SETTINGS, pair.now)
    pair.nodes[THEM].add(US, pair.now)
    pair.nodes[THEM].tick(pair.now)
    pair.settle()
    assert pair.verdicts[1:] == [
        TrustChange(THEM, False),
        TrustChange(THEM, False, restarted=True),
        TrustChange(THEM, True),
    ]


def test_what_an_ended_process_of_a_peer_said_is_ignored() -> None:
    pair = Pair()
    pair.run_until(1.0)
    pair.nodes[US].heard_sign(THEM, Sign(False, 19, 1, 10), pair.now)
    assert pair.nodes[US].take_signs() == []
    assert pair.nodes[US].take_verdicts() == []


def test_an_answer_to_our_earlier_process_is_ignored() -> None:
    detector = FailureDetector(10, SETTINGS, 0.0)
    detector.add(THEM, 0.0)
    detector.heard_sign(THEM, Sign(False, 20, 1, 0), 0.0)  # its incarnation is known, and it is asked
    number = max(sign.number for _, sign in detector.take_signs() if not sign.is_pong)
    detector.heard_sign(THEM, Sign(True, 20, number, 9), 0.1)
    assert not detector.trusts(THEM)
    detector.heard_sign(THEM, Sign(True, 20, number, 10), 0.1)
    assert detector.trusts(THEM)


def test_an_answer_says_how_it_was_when_the_question_left() -> None:
    detector = FailureDetector(10, SETTINGS, 0.0)
    detector.add(THEM, 0.0)
    detector.heard_sign(THEM, Sign(False, 20, 1, 0), 0.0)
    number = max(sign.number for _, sign in detector.take_signs() if not sign.is_pong)
    for step in range(1, 12):
        at = step * SETTINGS.ping_interval_s
        if step == 9:
            detector.heard_sign(THEM, Sign(True, 20, number, 10), at)
            assert detector.trusts(THEM)
        detector.heard(THEM, at)
        detector.tick(at)
    assert at > SETTINGS.answer_s
    assert not detector.trusts(THEM), "nothing that was asked in all that time was answered"


def test_a_node_that_was_held_up_itself_asks_again_before_it_judges() -> None:
    pair = Pair()
    pair.run_until(1.0)
    pair.now = 31.0  # this whole process stood still
    pair.nodes[US].tick(pair.now)
    assert pair.nodes[US].take_verdicts() == []
    pair.lost = lambda receiver, sign: True
    pair.nodes[US].take_signs()
    pair.run_until(31.7)
    assert pair.verdicts[1:] == []
    pair.run_until(32.0)
    assert pair.verdicts[1:] == [TrustChange(THEM, False, silent=True)]


def test_a_removed_peer_is_suspected_for_good() -> None:
    pair = Pair()
    pair.run_until(1.0)
    pair.nodes[US].remove(THEM)
    pair.settle()
    pair.run_until(3.0)
    assert pair.verdicts[1:] == [TrustChange(THEM, False)]
    assert pair.nodes[US].deadline is None


def test_what_waits_for_an_answer_is_bounded() -> None:
    detector = FailureDetector(10, SETTINGS, 0.0)
    detector.add(THEM, 0.0)
    for step in range(1000):
        detector.tick(step * 0.2)
        detector.take_signs()
    assert len(detector._peers[THEM].sent_at) <= 11
