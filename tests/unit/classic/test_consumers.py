"""Whose turn it is among the consumers of a queue."""

from __future__ import annotations

import pytest

from broker.errors import AccessRefused
from broker.queues.consumer import UNLIMITED_PORTION, Consumer
from classic.consumers import Consumers
from tests.unit.classic.classic_world import Sink, World, record_of

RECORD = record_of("q", 1)
QUEUE = World([RECORD]).queues["q"]


def consumer(tag: str, priority: int = 0, prefetch: int = 0, exclusive: bool = False) -> Consumer:
    return Consumer(tag, QUEUE, Sink(), priority=priority, prefetch=prefetch, exclusive=exclusive)


def consumers(*several: Consumer, single_active: bool = False) -> Consumers:
    found = Consumers(RECORD, single_active)
    for one in several:
        found.add(one)
    return found


def turns(among: Consumers, count: int, ready: int = 1) -> list[str]:
    taken = [among.next(ready) for _ in range(count)]
    return [one[0].tag if one is not None else "nobody" for one in taken]


def test_equals_take_turns() -> None:
    assert turns(consumers(consumer("a"), consumer("b"), consumer("c")), 7) == list("abcabca")


def test_a_higher_priority_is_served_while_it_has_room() -> None:
    high = consumer("high", priority=5, prefetch=1)
    among = consumers(consumer("low"), high)
    assert turns(among, 2) == ["high", "high"]
    high.outstanding = 1
    assert turns(among, 1) == ["low"]
    high.outstanding = 0
    assert turns(among, 1) == ["high"]


def test_a_negative_priority_is_below_none() -> None:
    among = consumers(consumer("below", priority=-1), consumer("none"))
    assert turns(among, 2) == ["none", "none"]


def test_taking_turns_does_not_leave_the_own_priority() -> None:
    high = [consumer(tag, priority=1, prefetch=1) for tag in "ab"]
    among = consumers(*high, consumer("c"))
    assert turns(among, 3) == ["a", "b", "a"]
    assert [one.tag for one in among] == ["b", "a", "c"]


def test_nobody_has_a_turn_without_room() -> None:
    full, slow = consumer("full", prefetch=1), consumer("slow")
    full.outstanding = 1
    assert isinstance(slow.sink, Sink)
    slow.sink.writable = False
    assert consumers().next(1) is None
    assert consumers(full).next(1) is None
    assert consumers(full, slow).next(1) is None
    assert consumers(full, slow).waiting() is None


def test_several_with_room_share_what_is_ready_and_the_last_message_is_no_ones_half() -> None:
    among = consumers(consumer("a"), consumer("b"), consumer("c", prefetch=2))
    assert [found[1] for _ in range(3) if (found := among.next(10)) is not None] == [4, 4, 2]
    assert among.next(1) is not None


def test_those_of_a_lower_priority_get_no_share() -> None:
    among = consumers(consumer("high", priority=1), consumer("low"))
    found = among.next(10)
    assert found is not None and (found[0].tag, found[1]) == ("high", 10)


def test_one_alone_may_take_a_whole_portion() -> None:
    found = consumers(consumer("a")).next(1)
    assert found is not None and found[1] == UNLIMITED_PORTION


def test_who_is_waiting_stays_where_it_is_until_it_was_served() -> None:
    among = consumers(consumer("a", prefetch=3), consumer("b"), consumer("low", priority=-1))
    for _ in range(2):
        waiting = among.waiting()
        assert waiting is not None and (waiting[0].tag, waiting[1]) == ("a", 3)
    among.served(waiting[0])
    assert [one.tag for one in among.in_turn] == ["b", "a", "low"]


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True), (True, True)])
def test_exclusive_means_alone(first: bool, second: bool) -> None:
    among = consumers(consumer("first", exclusive=first))
    with pytest.raises(AccessRefused, match="queue 'q' in vhost '/' in exclusive use"):
        among.add(consumer("second", exclusive=second))
    assert len(among.in_turn) == 1


def test_an_exclusive_consumer_that_left_makes_room_for_the_next() -> None:
    first = consumer("first", exclusive=True)
    among = consumers(first)
    assert among.remove(first)
    among.add(consumer("second", exclusive=True))
    assert turns(among, 1) == ["second"]


def test_a_single_active_consumer_cannot_be_exclusive_too() -> None:
    with pytest.raises(AccessRefused):
        consumers(consumer("a", exclusive=True), single_active=True)


def test_only_the_single_active_consumer_gets_messages_until_it_leaves() -> None:
    first, second, third = (consumer(tag) for tag in ("first", "second", "third"))
    among = consumers(first, second, third, single_active=True)
    assert turns(among, 3) == ["first"] * 3
    among.remove(second)
    assert among.active is first
    among.remove(first)
    assert among.active is third and third.active
    assert turns(among, 2) == ["third"] * 2


def test_the_active_consumer_is_not_taken_over_by_a_higher_priority_that_is_next_though() -> None:
    first = consumer("first")
    among = consumers(first, consumer("second"), consumer("high", priority=9), single_active=True)
    assert among.active is first
    among.remove(first)
    assert among.active is not None and among.active.tag == "high"


def test_the_others_wait_while_the_active_one_has_no_room() -> None:
    first = consumer("first", prefetch=1)
    among = consumers(first, consumer("second"), single_active=True)
    first.outstanding = 1
    assert among.next(1) is None


def test_removing_one_that_is_not_here_changes_nothing() -> None:
    among = consumers(consumer("a"))
    assert not among.remove(consumer("a"))
    assert len(among.in_turn) == 1


def test_the_last_one_leaves_no_active_one_behind() -> None:
    only = consumer("only")
    among = consumers(only, single_active=True)
    among.remove(only)
    assert among.active is None and not among.in_turn and among.next(1) is None


def test_what_is_handed_out_without_ever_being_in_the_queue_goes_to_each_in_turn() -> None:
    world, sinks = World([RECORD]), [Sink(), Sink()]
    for tag, sink in zip("ab", sinks, strict=True):
        world.queues["q"].consume(Consumer(tag, world.queues["q"], sink, no_ack=True), world.now)
    world.turn()
    for body in (b"1", b"2", b"3", b"4"):
        world.publish(["q"], [body], persistent=False)
    assert [[body for body, _ in sink.got] for sink in sinks] == [[b"1", b"3"], [b"2", b"4"]]
