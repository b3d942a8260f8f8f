"""The promises of queues, of streams and of the catalog, each a function that raises Violation with its own name.

Who looks after them: ledger.py and stream_book.py for what the log of a queue says, machines.py for what each member makes
of it, world.py, stream_reading.py and operator.py for what clients are told. A promise about clients is checked against what is
committed at that moment, and not against what any node believes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from tests.sim.invariants import registered_in

BROKER_INVARIANTS: dict[str, Callable[..., None]] = {}
invariant = registered_in(BROKER_INVARIANTS)


@dataclass
class About:
    """A queue, a client, the catalog."""

    label: str
    checked: dict[str, int]


# What the log of a queue says


@invariant
def every_message_is_somewhere(about: About, enqueued: int, present: int, gone: dict[str, int]) -> None:
    """Enqueued is what is ready, delayed, checked out and dead, and what was settled, dropped, purged, dead-lettered."""
    assert enqueued == present + sum(gone.values()), f"{enqueued} enqueued, {present} are there, and went: {gone}"


@invariant
def first_deliveries_are_in_order(about: About, lane: object, before: int, now: int) -> None:
    assert before < now, f"{lane}: message {now} is handed out for the first time after {before}"


@invariant
def next_active_consumer_overtakes_nothing(about: About, lane: object, number: int, newest: int) -> None:
    assert number > newest, (
        f"{lane}: message {number} was never seen, and its queue has given {newest} to another single active consumer before it"
    )


@invariant
def limit_of_deliveries_holds(about: About, failures: int, limit: int) -> None:
    assert failures <= limit + 1, f"a message has failed {failures} times, and {limit} is the limit"


@invariant
def nothing_expires_early(about: About, expires_at: float, now: int) -> None:
    assert expires_at <= now, f"a message that lives until {expires_at} expires at {now}"


@invariant
def limit_of_length_holds(about: About, ready: int, limit: int) -> None:
    assert ready <= limit, f"{ready} messages are ready, and {limit} is the limit"


@invariant
def producers_numbers_are_stored_once(about: About, name: bytes, number: int, known: Collection[int]) -> None:
    assert number not in known, f"message {number} of producer {name!r} is stored twice"


@invariant
def one_consumer_is_active(about: About, active: Any, given: Any) -> None:
    assert given == active, f"{given} is given messages, and {active} is the single active consumer"


@invariant
def dead_letters_leave_when_they_have_arrived(about: About, body: bytes, is_there: bool) -> None:
    assert is_there, f"dead letter {body[:40]!r} is given up by its source, and its target does not have it"


@invariant
def at_most_once_is_not_twice(about: About, body: bytes, source: str, known: int) -> None:
    """Of quorum queues, whose log says once that a message dies."""
    assert not known, f"the dead letter {body[:40]!r} of {source} came at most once, and comes again"


@invariant
def only_what_was_acknowledged_is_gone(about: About, body: bytes, was_said: bool) -> None:
    assert was_said, f"message {body[:40]!r} is settled, and no client has acknowledged it"


# What each member makes of it


@invariant
def results_are_the_twins(about: About, index: int, found: Sequence[Any], known: Sequence[Any]) -> None:
    assert list(found) == list(known), f"entry {index} has results {list(found)}; its twin says {list(known)}"


@invariant
def effects_are_the_twins(about: About, index: int, found: Sequence[Any], known: Sequence[Any]) -> None:
    assert list(found) == list(known), f"entry {index} has effects {list(found)}; its twin says {list(known)}"


@invariant
def figures_are_the_twins(about: About, index: int, found: tuple[int, ...], known: tuple[int, ...]) -> None:
    """Ready, checked out, delayed, dead; and who is active."""
    assert found == known, f"after entry {index} there are {found}; its twin says {known}"


@invariant
def rules_are_what_was_declared(about: About, found: dict[str, Any], declared: dict[str, Any]) -> None:
    """By the arguments that the queue was declared with, and the policies that the catalog has in the end. The twin knows only
    the rules that the log tells it, right or wrong."""
    assert found == declared, f"it goes by {found}, and {declared} is declared"


# What clients are told


@invariant
def confirmed_is_committed(about: About, body: bytes, queues: Sequence[str]) -> None:
    assert not queues, f"{body[:40]!r} is confirmed, and not committed in {list(queues)}"


@invariant
def confirmed_by_every_queue(about: About, body: bytes, missing: Sequence[str]) -> None:
    """Of a message that goes to several."""
    assert not missing, f"{body[:40]!r} is confirmed, and {list(missing)} never took it"


@invariant
def committed_as_a_whole(about: About, who: str, missing: Sequence[tuple[str, bytes]]) -> None:
    assert not missing, f"a commit of {who} is answered, and not stored are {[(q, body[:40]) for q, body in missing]}"


@invariant
def uncommitted_is_nowhere(about: About, body: bytes, is_committed: bool) -> None:
    assert is_committed, f"{body[:40]!r} is stored, and its publisher has not committed it"


@invariant
def stored_once_in_a_queue(about: About, body: bytes, known: int) -> None:
    """However many bindings lead there. Of each publish; what is published again is another one."""
    assert not known, f"{body[:40]!r} is stored again"


@invariant
def refused_is_not_stored(about: About, body: bytes, is_stored: bool) -> None:
    assert not is_stored, f"{body[:40]!r} is refused, and was stored"


@invariant
def delivered_is_checked_out(about: About, who: str, body: bytes, is_held: bool) -> None:
    """As far as the member knows that reads it."""
    assert is_held, f"{who} is given {body[:40]!r}, which is not checked out to it"


@invariant
def delivered_is_what_was_published(about: About, who: str, body: bytes, known: bytes) -> None:
    assert body == known, f"{who} is given {body[:40]!r} as what was published as {known[:40]!r}"


@invariant
def delivered_once_to_a_consumer(about: About, who: str, number: int, last: int) -> None:
    """Message ids of a consumer ascend: nothing is given to it twice unless it came back between."""
    assert number > last, f"{who} is given its message {number} after {last}"


@invariant
def redeliveries_say_so(about: About, who: str, found: tuple[bool, int, int], known: tuple[bool, int, int]) -> None:
    """The flag, x-delivery-count, x-acquired-count."""
    assert found == known, f"{who} is told {found} of a delivery that is {known}"


@invariant
def prefetch_is_kept(about: About, who: str, outstanding: int, prefetch: int) -> None:
    assert outstanding <= prefetch, f"{who} holds {outstanding} messages, and takes {prefetch}"


@invariant
def purges_are_counted(about: About, told: int, untold: Collection[int]) -> None:
    """Each is done once, and told of once."""
    assert told in untold, f"{told} messages were purged, it is said; by the log, and not told yet, {sorted(untold)}"


# What nodes read


@invariant
def frames_say_what_was_sent(about: About, pair: tuple[int, int], noticed: bool, read: Sequence[bytes]) -> None:
    assert noticed, (
        f"node {pair[1]} reads {[one[:40] for one in read]} of node {pair[0]}, whose bytes were changed on their way"
    )


# Classic queues


@invariant
def nothing_is_out_at_a_stop(about: About, out: int) -> None:
    assert not out, f"the node was stopped in order, and clients still hold {out} messages"


@invariant
def what_is_done_with_stays_away(about: About, body: bytes, is_done: bool) -> None:
    """Not handed out again by the process that was told, nor by a later one once the log that says so was durable."""
    assert not is_done, f"{body[:40]!r} is handed out again, and was acknowledged or rejected"


@invariant
def nothing_comes_of_another_life(about: About, who: str, body: bytes, is_stored: bool) -> None:
    """Of a queue that was deleted and declared again: what is handed out was stored in this life of it."""
    assert is_stored, f"{who} is given {body[:40]!r}, which this queue never took"


@invariant
def confirmed_is_stored(about: About, body: bytes, is_stored: bool) -> None:
    assert is_stored, f"{body[:40]!r} is confirmed, and its queue never took it"


# Queues that are converted


@invariant
def converted_queue_has_what_it_had(about: About, missing: Sequence[bytes], again: Sequence[bytes]) -> None:
    """When a classic queue becomes a quorum queue: all that no client has acknowledged, and nothing that it was durably done
    with."""
    assert not missing, (
        f"the quorum queue lacks {len(missing)} messages of the classic one, such as {missing[0][:40]!r}"
    )
    assert not again, f"the quorum queue has {len(again)} messages that were done with, such as {again[0][:40]!r}"


@invariant
def what_comes_again_says_so(about: About, who: str, body: bytes, is_again: bool, is_told: bool) -> None:
    assert is_told or not is_again, f"{who} is given {body[:40]!r}, which was given before, and is not told"


@invariant
def converted_queue_loses_nothing(about: About, missing: Sequence[bytes]) -> None:
    """In the end: what was confirmed, before the change or behind it, a client has acknowledged."""
    assert not missing, f"{len(missing)} confirmed messages are lost, such as {missing[0][:40]!r}"


# Streams


@invariant
def channels_keep_their_order(about: About, publisher: bytes, before: int, number: int) -> None:
    """In a stream: what one channel publishes is stored as it was published."""
    assert before < number, f"message {number} of {publisher!r} is stored behind {before}"


@invariant
def retention_takes_what_is_too_much(
    about: About, first: int, size: int, rules: Sequence[Any], is_asked_for: bool
) -> None:
    """By a limit that was in force at some time: nodes hear late of policies."""
    assert is_asked_for, (
        f"the segment from {first} on is removed, of {size} bytes in all, and the limits were {list(rules)}"
    )


@invariant
def first_offset_never_falls(about: About, node: int, before: int, now: int) -> None:
    """While a process lives, and it has the same member."""
    assert before <= now, f"on node {node} the stream began with {before}, and begins with {now}"


@invariant
def messages_of_a_stream_are_kept(about: About, node: int, missing: Sequence[int]) -> None:
    """By the log of a member, whatever snapshot it takes."""
    assert not missing, f"node {node} keeps all but entries {list(missing)[:5]}, which retention has not removed"


@invariant
def offset_names_one_message(about: About, who: str, offset: int, body: bytes, known: bytes) -> None:
    assert body == known, f"{who} is given {body[:40]!r} at offset {offset}, where {known[:40]!r} is stored"


@invariant
def offset_names_one_chunk(about: About, who: str, offset: int, found: bytes, known: bytes) -> None:
    assert found == known, (
        f"{who} is given {found[:60]!r} as the chunk at offset {offset}, where {known[:60]!r} is stored"
    )


@invariant
def chunks_come_for_credit(about: About, who: str, credit: int) -> None:
    assert credit > 0, f"{who} is given a chunk, and has credit for {credit}"


@invariant
def last_chunk_is_committed(about: About, who: str, given: int, last: int, known: int) -> None:
    assert given <= last <= known, (
        f"{who} is given chunk {given}, told that {last} is the last one, and that is {known}"
    )


@invariant
def one_of_a_group_reads(about: About, group: str, who: str, others: Sequence[str]) -> None:
    """As long as nodes reach each other."""
    assert not others, f"{who} of group {group} is told to read while {list(others)} do"


@invariant
def groups_have_a_reader(about: About, group: str, consumers: Sequence[str], reading: Sequence[str]) -> None:
    """In the end: one."""
    assert len(reading) == bool(consumers), f"of {list(consumers)} of group {group} these read: {list(reading)}"


@invariant
def last_id_is_the_logs(about: About, who: str, low: int, told: int, high: int) -> None:
    """Of a publisher: what is stored when it is asked for, or since."""
    assert low <= told <= high, f"{who} is told that {told} was its last id, between {low} and {high}"


@invariant
def what_is_up_to_a_last_id_is_stored(about: About, who: str, last_id: int, missing: Sequence[bytes]) -> None:
    """What its publisher has published in this order: it is not published again."""
    assert not missing, f"{who} is told that {last_id} was its last id, and not stored are {list(missing)[:3]}"


@invariant
def stored_offsets_were_stored(about: About, who: str, told: int | None, known: Collection[int]) -> None:
    """By a client, under this name."""
    assert told is None or told in known, f"{who} is told of offset {told}, which nobody has stored"


@invariant
def stored_offsets_do_not_go_back(about: About, who: str, before: int, told: int | None, came_later: bool) -> None:
    """Behind what a client was told, unless somebody has stored less after that, or over another connection."""
    is_right = told is not None and (told >= before or came_later)
    assert is_right, f"{who} is told of offset {told}, after {before}, and nobody has stored that later"


@invariant
def readers_begin_where_they_asked(
    about: About, who: str, beginning: Any, offset: int, told: int, may_begin: bool
) -> None:
    """`told`: where the stream ended by all that clients knew when it was asked."""
    assert may_begin, f"{who} asked for {beginning}, when clients had seen all up to {told}, and begins with {offset}"


@invariant
def readers_miss_nothing(about: About, who: str, wanted: int, offset: int, was_removed: bool) -> None:
    assert offset == wanted or was_removed, f"{who} is given offset {offset} where {wanted} should come"


@invariant
def retention_is_kept_to(about: About, is_too_much: bool) -> None:
    assert not is_too_much, "the stream has more than its limits allow, and nothing is removed"


@invariant
def readers_reach_the_end(about: About, who: str, following: int | None, end: int) -> None:
    assert following in (None, end), f"{who} is given nothing from {following} on, and the stream has {end} messages"


@invariant
def members_have_the_same_bytes(about: About, node: int, index: int, found: bytes | None, known: bytes) -> None:
    assert found == known, f"node {node} has other bytes in entry {index}, or none: {found[:60] if found else found!r}"


# The catalog


@invariant
def catalog_is_linearizable(about: About, what: str, index: int, floor: int) -> None:
    """Whoever asks after somebody was answered is answered by a later entry."""
    assert index > floor, f"{what} is entry {index}, and began after one was answered that is entry {floor}"


@invariant
def catalog_answers_are_the_logs(about: About, what: str, found: str, known: str) -> None:
    assert found == known, f"{what} is answered {found!r}; by the log it is {known!r}"


@invariant
def commands_are_carried_out_once(about: About, what: str, is_known: bool) -> None:
    assert not is_known, f"{what} is carried out twice"


@invariant
def commands_keep_their_order(about: About, what: str, before: int, number: int) -> None:
    """Of one process of a node."""
    assert number > before, f"{what} is its command {number}, and is carried out after {before}"


@invariant
def lives_have_numbers_of_their_own(about: About, name: str, number: int, is_known: bool) -> None:
    """Of queues: what is stored and said under a number is about one life of one queue."""
    assert not is_known, f"queue {name} is declared with number {number}, which another one had"


@invariant
def bindings_have_both_ends(about: About, loose: Sequence[str]) -> None:
    assert not loose, f"bindings with an end that does not exist: {list(loose)}"


# In the end


@invariant
def everybody_is_answered(about: About, waiting: Sequence[str]) -> None:
    assert not waiting, f"nobody answers {list(waiting)}"


@invariant
def queues_drain(about: About, left: int) -> None:
    assert not left, f"{left} messages do not come out"


@invariant
def histories_are_right(about: About, wrong: Sequence[str]) -> None:
    assert not wrong, "; ".join(wrong)
