"""Which confirmed messages a run has lost, where somebody has seen which ones left otherwise than to a client.

From outside a whole queue has to be excused once something in it may go: it drops or expires messages, was purged, or has
consumers that acknowledge nothing. Here each message is judged by itself. What is not in `gone` must have been acknowledged by
a client, in its queue or in the one that it was dead-lettered to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tests.histories import judge
from tests.histories.book import kept
from tests.histories.records import History, Message
from tests.histories.rules import QueueRules, Rules

Gone = Mapping[str, Mapping[Message, str]]  # by queue: what may be nowhere, and why


def lost(history: History, rules: Rules, gone: Gone) -> Iterator[str]:
    """In sentences. A time to live excuses nothing: what died of it is in `gone`."""
    book = kept(history)
    attempted = {message: replace(one, expires_s=None) for message, one in book.attempted.items()}
    strict = replace(rules, queues=tuple(replace(queue, expires_s=None) for queue in rules.queues))
    for queue in strict.queues:
        excused = excuses(queue, gone)
        confirmed = {message: one for message, one in book.confirmed.items() if message not in excused}
        yield from judge.lost(replace(book, attempted=attempted, confirmed=confirmed), queue, strict)


def excuses(queue: QueueRules, gone: Gone) -> dict[Message, str]:
    """What may be nowhere of all that was published to this queue, and why: it left it, or the target of its dead letters."""
    target = queue.dead_letters_to
    beyond = gone.get(target, {}) if target is not None else {}
    return {**beyond, **gone.get(queue.name, {})}


def judged_elsewhere(rules: Rules) -> Rules:
    """The same, for who cannot know what is gone."""
    return replace(rules, queues=tuple(replace(queue, keeps_confirmed=False) for queue in rules.queues))
