"""Whether a broker kept its promises, told from what its clients saw: `judge` lists what is wrong, in sentences.

    lost                a message that was confirmed, and that no client has got to the end with, although its queue was drained
    unexpected          a delivery of what nobody sent, sent elsewhere, or was told for certain had not been stored
    again after its     a delivery decided after an acknowledgement of the same message was surely committed
      acknowledgement
    without the flag    more than one delivery of a message that says it is the first
    out of order        to one consumer, first deliveries of one publisher and priority that do not ascend
    wrongly             a dead letter whose reason did not happen: rejected by nobody, expired too early, a limit that
      dead-lettered     is not set
    beyond the limit    a message handed out again after more failures than its queue allows
    did not drain       a queue that still has messages when its clients have taken all that came, or that nobody could drain

What a client cannot know is never held against the broker: an acknowledgement may be lost with its connection, a delivery may
reach a client late, after others that were decided later, and messages on their way to a consumer that left go back as new:
those that were sent before its queue can have known, as many as it may have had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tests.histories.book import Book, Fate, kept
from tests.histories.records import Delivered, History, Left, Message, Rejected, Requeued
from tests.histories.rules import QueueRules, Rules

SHOWN_MAX = 5  # examples in a sentence
CLOCK_GRAIN_S = 0.002  # a queue counts whole milliseconds


def judge(history: History, rules: Rules) -> list[str]:
    """What is wrong. Raises ValueError when the records themselves make no sense (book.py)."""
    book = kept(history)
    wrong: list[str] = []
    for queue in rules.queues:
        for check in CHECKS:
            wrong += check(book, queue, rules)
    named = {queue.name for queue in rules.queues}
    strangers = {name for name, _ in book.seen} - named
    return wrong + [f"deliveries came from {name}, which has no rules" for name in sorted(strangers)]


def lost(book: Book, queue: QueueRules, rules: Rules) -> Iterator[str]:
    if not queue.keeps_confirmed:
        return
    missing = [
        message
        for message in book.confirmed
        if rules.is_fed_directly(message, queue)
        and (queue.keeps_transient or book.attempted[message].persistent)
        and not is_accounted_for(book, message, queue, rules)
    ]
    if missing:
        yield f"{queue.name}: {len(missing)} confirmed messages are lost: {_shown(missing)}"


def is_accounted_for(book: Book, message: Message, queue: QueueRules, rules: Rules) -> bool:
    """Whether it was consumed from the queue or from one that it was dead-lettered to, or may rightly be nowhere."""
    passed: set[str] = set()
    source = ""  # of the dead letter that it is there
    while queue.name not in passed:
        passed.add(queue.name)
        fates = [fate for fate in book.seen.get((queue.name, message), []) if _came_from(fate, source)]
        if any(fate.is_consumed for fate in fates):
            return True
        may_leave = _may_leave(book, message, queue, fates, rules.news_s)
        if queue.dead_letters_to is None:
            return may_leave
        if may_leave and not queue.at_least_once:
            return True
        source, queue = queue.name, rules.by_name[queue.dead_letters_to]
        if not queue.keeps_confirmed:
            return True
    return False


def _came_from(fate: Fate, source: str) -> bool:
    """Whether this delivery is of the dead letter of that queue, and not of what came another way."""
    return not source or any(queue == source for queue, _ in fate.delivered.deaths)


def unexpected(book: Book, queue: QueueRules, rules: Rules) -> Iterator[str]:
    never, early, strange, denied = [], [], [], []
    for message, fates in book.deliveries_of(queue.name):
        sent = book.attempted.get(message)
        if sent is None:
            never.append(message)
        elif min(fate.delivered.at for fate in fates) < sent.at:
            early.append(message)
        elif not rules.feeds(message, queue):
            strange.append(message)
        elif message in book.refused and book.refused[message].certain:
            denied.append(message)
    yield from _told(queue, never, "messages were delivered that nobody sent")
    yield from _told(queue, early, "messages were delivered before they were sent")
    yield from _told(queue, strange, "messages were delivered that were not sent here")
    yield from _told(queue, denied, "messages were delivered that had been refused for certain")


def delivered_after_acknowledgement(book: Book, queue: QueueRules, rules: Rules) -> Iterator[str]:
    if queue.may_hold_twice:
        return
    again = [message for message, fates in book.deliveries_of(queue.name) if _comes_after_settlement(fates)]
    yield from _told(queue, again, "messages were delivered again after their acknowledgement was committed")


def redelivered_without_flag(book: Book, queue: QueueRules, rules: Rules) -> Iterator[str]:
    if queue.may_hold_twice:
        return
    twice = [
        message
        for message, fates in book.deliveries_of(queue.name)
        if sum(not fate.delivered.redelivered for fate in fates) > 1
    ]
    yield from _told(queue, twice, "messages were delivered again without the flag that says so")


def out_of_order(book: Book, queue: QueueRules, rules: Rules) -> Iterator[str]:
    """First deliveries only: what comes back has lost its place. Whatever comes behind a later one must have gone back unseen,
    from a consumer that left about then or later."""
    if not queue.keeps_order:
        return
    lanes: dict[tuple[str, str, int], list[Delivered]] = {}
    for message, fates in book.deliveries_of(queue.name):
        sent = book.attempted.get(message)
        for delivered in (fate.delivered for fate in fates):
            if sent is not None and not delivered.redelivered and not delivered.deaths:
                lanes.setdefault((delivered.consumer, delivered.publisher, sent.priority), []).append(delivered)
    overtaken = {late.delivery: (late, early) for lane in lanes.values() for late, early in _overtaken(lane)}
    if rules.knows_what_went_back:
        unexcused = [at for at, (late, _) in overtaken.items() if (queue.name, _message(late)) not in book.went_back]
    else:
        times = [(book.attempted[_message(late)].at, late.at, late.delivery) for late, _ in overtaken.values()]
        unexcused = _not_gone_back(times, book.left[queue.name], rules.news_s)
    if unexcused:
        late, early = overtaken[unexcused[0]]
        yield (
            f"{queue.name}: {len(overtaken)} messages came out of order, and {len(unexcused)} of them cannot have gone back "
            f"unseen: {late.consumer} got {late.publisher}:{late.number} after {early.number}"
        )


def dead_lettered_wrongly(book: Book, queue: QueueRules, rules: Rules) -> Iterator[str]:
    for message, fates in book.deliveries_of(queue.name):
        for delivered in (fate.delivered for fate in fates):
            if not delivered.deaths and not rules.is_fed_directly(message, queue):
                yield f"{queue.name}: {_name(message)} came without a reason, and was not published here"
            for source, reason in delivered.deaths:
                died_in, keep_time = rules.by_name.get(source), rules.clocks_keep_time
                why_not = _why_not(book, message, died_in, reason, delivered.at, clocks_keep_time=keep_time)
                if why_not:
                    yield f"{queue.name}: {_name(message)} was dead-lettered by {source} as {reason}, but {why_not}"


def beyond_the_limit(book: Book, queue: QueueRules, rules: Rules) -> Iterator[str]:
    limit = queue.delivery_limit
    if limit is None:
        return
    counted, answered = [], []
    for message, fates in book.deliveries_of(queue.name):
        if any(fate.delivered.failures > limit for fate in fates):
            counted.append(message)
        sure = sum(fate.settled_at is not None and _is_failure(fate) for fate in fates)
        if sure > limit + 1:
            answered.append(message)
    yield from _told(queue, counted, f"messages were handed out after more than {limit} failures")
    yield from _told(queue, answered, f"messages were failed more than {limit + 1} times")


def did_not_drain(book: Book, queue: QueueRules, rules: Rules) -> Iterator[str]:
    if not queue.drains:
        return
    ends = book.drained[queue.name]
    if not ends:
        yield f"{queue.name}: was never drained"
    for end in ends:
        if end.left:
            yield f"{queue.name}: did not drain on {end.where}: {end.left} messages are left"


CHECKS: tuple[Callable[[Book, QueueRules, Rules], Iterable[str]], ...] = (
    lost,
    unexpected,
    delivered_after_acknowledgement,
    redelivered_without_flag,
    out_of_order,
    dead_lettered_wrongly,
    beyond_the_limit,
    did_not_drain,
)


def _may_leave(book: Book, message: Message, queue: QueueRules, fates: list[Fate], news_s: float) -> bool:
    """Whether the queue may have dropped or dead-lettered it, as far as clients can tell."""
    if any(isinstance(fate.answer, Rejected) for fate in fates):
        return True
    if _lifetime_s(book, message, queue) is not None:
        return True
    return queue.delivery_limit is not None and _failures_at_most(book, queue, fates, news_s) > queue.delivery_limit


def _failures_at_most(book: Book, queue: QueueRules, fates: list[Fate], news_s: float) -> int:
    """A consumer that is lost counts as a failure, and not every delivery reaches one that can tell."""
    if not fates:
        return 0
    newest = max(fates, key=lambda fate: (fate.delivered.failures, fate.delivered.at)).delivered
    return newest.failures + 1 + sum(left.at >= newest.at - news_s for left in book.left[queue.name])


def _lifetime_s(book: Book, message: Message, queue: QueueRules) -> float | None:
    own = book.attempted[message].expires_s
    if own is None or queue.expires_s is None:
        return queue.expires_s if own is None else own
    return min(own, queue.expires_s)


def _overtaken(lane: list[Delivered]) -> Iterator[tuple[Delivered, Delivered]]:
    """Each delivery that came behind one of a higher number, and that one."""
    lane.sort(key=lambda delivered: delivered.delivery)
    newest = lane[0]
    for delivered in lane:
        if delivered.number < newest.number:
            yield delivered, newest
        else:
            newest = delivered


def _not_gone_back(late: list[tuple[float, float, int]], left: list[Left], news_s: float) -> list[int]:
    """Of messages (when each was sent, when delivered, its delivery) those that were on the way to no consumer that left.
    Each consumer takes its window of those that were delivered first: no other choice excuses more."""
    waiting = sorted(late, key=lambda one: one[1])
    for one in sorted(left, key=lambda left: left.at):
        room = one.window
        still = []
        for sent_at, delivered_at, delivery in waiting:
            if room and sent_at - news_s <= one.at <= delivered_at + news_s:
                room -= 1
            else:
                still.append((sent_at, delivered_at, delivery))
        waiting = still
    return [delivery for _, _, delivery in waiting]


def _message(delivered: Delivered) -> Message:
    return delivered.publisher, delivered.number


def _comes_after_settlement(fates: list[Fate]) -> bool:
    """The counts say what was decided first. Where they are equal (classic queues have none) the clients' clock does."""
    for settled in fates:
        if not settled.is_surely_consumed:
            continue
        assert settled.settled_at is not None, "surely consumed"
        for other in fates:
            if other is settled:
                continue
            if other.delivered.acquired > settled.delivered.acquired:
                return True
            if other.delivered.acquired == settled.delivered.acquired and other.delivered.at > settled.settled_at:
                return True
    return False


def _is_failure(fate: Fate) -> bool:
    return isinstance(fate.answer, Requeued) and fate.answer.is_failure


def _why_not(
    book: Book, message: Message, source: QueueRules | None, reason: str, at: float, *, clocks_keep_time: bool
) -> str | None:
    if source is None:
        return "no such queue has rules"
    fates = book.seen.get((source.name, message), [])
    match reason:
        case "rejected":
            if not any(isinstance(fate.answer, Rejected) for fate in fates):
                return "no client has rejected it"
        case "expired":
            lifetime = _lifetime_s(book, message, source) if message in book.attempted else None
            if lifetime is None:
                return "it had no time to live"
            lived = at - book.attempted[message].at
            if clocks_keep_time and lived < lifetime - CLOCK_GRAIN_S:
                return f"it lived {lived:.3f} s of {lifetime:.3f}"
        case "maxlen":
            if not source.drops:
                return "there is no limit of length that has any leave"
        case "delivery_limit":
            if source.delivery_limit is None:
                return "there is no limit"
        case _:
            return "nothing asks for that"
    return None


def _told(queue: QueueRules, messages: list[Message], what: str) -> Iterator[str]:
    if messages:
        yield f"{queue.name}: {len(messages)} {what}: {_shown(messages)}"


def _shown(messages: list[Message]) -> str:
    rest = f" and {len(messages) - SHOWN_MAX} more" if len(messages) > SHOWN_MAX else ""
    return ", ".join(_name(message) for message in sorted(messages)[:SHOWN_MAX]) + rest


def _name(message: Message) -> str:
    return f"{message[0]}:{message[1]}"
