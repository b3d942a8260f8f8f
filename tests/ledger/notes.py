"""What clients did and saw, and what the log has to tell of each message then.

A message is named by its body, which no other has; a dead letter is the same message in another queue. What clients did right
before their node was killed may have come to nothing: such a message may also be as it was before.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from analytics.fold.lives import LifeState

SKEW_S = 0.15  # between the times of the log and those of clients


@dataclass(slots=True)
class Told:
    """What the log tells of one message in one queue."""

    state: LifeState
    times_out: int
    returned: Counter[str]
    published_at: int | None  # ms
    exchange: str
    unknown: str | None = None
    ended_at: int | None = None  # ms
    consumer: str | None = None  # the name of the connection that had it last; None: the log does not say
    publisher: str | None = None  # the same of the one that published it
    died_in: str | None = None  # the queue that a dead letter comes from; None: it is none, or the log does not say


@dataclass(slots=True)
class Noted:
    """What clients know of one message in one queue."""

    state: LifeState = LifeState.READY
    times_out: int = 0
    times_out_surely: int = 0  # the rest was before a kill of the node, which may have lost it
    returned: Counter[str] = field(default_factory=Counter)
    published: tuple[float, float] | None = None  # s: between these; None: a queue did it
    in_doubt: bool = False  # it was settled right before the kill


class Notes:
    """See the module. Of all queues: messages by queue and body, in the order in which they came."""

    def __init__(self) -> None:
        self.messages: dict[str, dict[str, Noted]] = {}

    def published(self, queue: str, body: str, between: tuple[float, float] | None = None) -> None:
        messages = self.messages.setdefault(queue, {})
        assert body not in messages, f"{body} is in {queue} twice"
        messages[body] = Noted(published=between)

    def ready(self, queue: str) -> list[str]:
        return [body for body, one in self.messages.get(queue, {}).items() if one.state is LifeState.READY]

    def handed_out(self, queue: str, body: str) -> None:
        one = self.messages[queue][body]
        assert one.state is LifeState.READY, f"{body} came from {queue} though it was {one.state}"
        one.state = LifeState.OUT
        one.times_out += 1
        one.times_out_surely += 1

    def came_back(self, queue: str, body: str, reason: str) -> None:
        one = self.messages[queue][body]
        assert one.state is LifeState.OUT, f"{body} of {queue} came back though it was {one.state}"
        one.state = LifeState.READY
        one.returned[reason] += 1

    def ended(self, queue: str, body: str, state: LifeState) -> None:
        self.messages[queue][body].state = state

    def node_killed(self, in_doubt: set[tuple[str, str]]) -> None:
        """What was out is ready again; what was settled just now may be, too: who takes all that is left will know."""
        for queue, messages in self.messages.items():
            for body, one in messages.items():
                one.times_out_surely = 0
                one.in_doubt = (queue, body) in in_doubt
                if one.state is LifeState.OUT:
                    one.state = LifeState.READY

    def taken_after_kill(self, queue: str, body: str) -> None:
        """And acknowledged."""
        one = self.messages[queue][body]
        assert one.state is LifeState.READY or one.in_doubt, f"{body} came from {queue} though it was {one.state}"
        one.state = LifeState.READY
        self.handed_out(queue, body)
        self.ended(queue, body, LifeState.ACKED)


def differences(noted: Noted, told: Told, early_s: float) -> list[str]:
    """In what the log tells something else than the clients; empty: in nothing."""
    found = []
    if told.unknown is not None:
        found.append(f"the log does not know: {told.unknown}")
    if told.state is not noted.state:
        found.append(f"it is {noted.state}, the log says {told.state}")
    if not noted.times_out_surely <= told.times_out <= noted.times_out:
        found.append(f"it was out {noted.times_out} times, the log says {told.times_out}")
    if noted.times_out_surely == noted.times_out and noted.returned != told.returned:
        found.append(f"it came back {dict(noted.returned)}, the log says {dict(told.returned)}")
    if noted.published is not None:
        before, after = noted.published
        if told.published_at is None or not before - early_s <= told.published_at / 1_000 <= after + SKEW_S:
            found.append(f"it was published between {before} and {after}, the log says {told.published_at}")
    return found


def compared(notes: Notes, told: dict[str, dict[str, list[Told]]], early_s: float) -> list[str]:
    """Row by row: a sentence for each difference. `early_s`: how long before a message was published the time may be that the
    log gives it."""
    found = []
    for queue in sorted(notes.messages.keys() | told.keys()):
        noted_here, told_here = notes.messages.get(queue, {}), told.get(queue, {})
        found += [
            f"{queue}: {body} is in the log, and nobody published it" for body in told_here.keys() - noted_here.keys()
        ]
        for body, noted in noted_here.items():
            rows = told_here.get(body, [])
            if len(rows) != 1:
                found.append(f"{queue}: {body} is in the log {len(rows)} times")
                continue
            found += [f"{queue}: {body}: {one}" for one in differences(noted, rows[0], early_s)]
    return found
