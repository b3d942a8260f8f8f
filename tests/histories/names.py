"""Names that are declared, deleted and looked up on several nodes: is there one order that explains every answer?

A name is a register: absent, or declared with a value (the arguments that it was declared with). Declaring what exists is
answered by whether the value is the same, and changes nothing; deleting is always answered; looking tells whether it is there.
Who knows no answer leaves `ended` open: it may have been done at any time since, or never. The search is that of
tests/sim/linearizability.py, name by name.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from enum import Enum

from tests.sim.linearizability import NEVER, NOTHING, Call, Inconclusive, Kind, Model, State, explain

OPEN = math.inf
SHOWN_MAX = 12


class Verb(Enum):
    DECLARE = "declare"
    DELETE = "delete"
    LOOK = "look"


class Answer(Enum):
    DONE = "done"  # declared or deleted: now it is so
    OTHER = "exists with other arguments"
    PRESENT = "present"
    ABSENT = "absent"


@dataclass(slots=True)
class NameCall:
    """One call of one client. What was refused for certain is not recorded, for it had no effect and found nothing out."""

    verb: Verb
    name: str
    client: str
    began: float
    ended: float = OPEN
    value: str = ""
    answer: Answer | None = None

    def __str__(self) -> str:
        ended = "?" if self.ended == OPEN else f"{self.ended:.3f}"
        told = self.answer.value if self.answer is not None else "unknown"
        return f"{self.began:.3f}..{ended} {self.client} {self.verb.value} {self.value}: {told}"


def judge_names(calls: list[NameCall]) -> list[str]:
    """What is wrong, in sentences. A history that cannot be decided counts as wrong."""
    by_name: dict[str, list[NameCall]] = defaultdict(list)
    for call in calls:
        by_name[call.name].append(call)
    wrong = []
    for name, found in by_name.items():
        try:
            if explain(_as_register_calls(found), model=NAMES) is None:
                wrong.append(f"{name}: no order explains what clients were told: {_shown(found)}")
        except Inconclusive as why:
            wrong.append(f"{name}: not decided: {why}")
    return wrong


_SAME, _DIFFERENT = b"\1", b"\0"
_KINDS = {Verb.DECLARE: Kind.PUT, Verb.DELETE: Kind.DELETE, Verb.LOOK: Kind.READ}
_RESULTS: dict[Answer, dict[Verb, State]] = {
    Answer.DONE: {Verb.DECLARE: (1, _SAME), Verb.DELETE: NOTHING},
    Answer.OTHER: {Verb.DECLARE: (1, _DIFFERENT)},
    Answer.PRESENT: {Verb.LOOK: (1, b"")},
    Answer.ABSENT: {Verb.LOOK: NOTHING},
}


def _step(state: State, call: Call) -> tuple[State, State]:
    """A declared name is version 1 of its value; nothing tells how often it was declared."""
    present, value = state
    match call.kind:
        case Kind.READ:
            return state, (present, b"")
        case Kind.DELETE:
            return NOTHING, NOTHING
        case _ if present:
            return state, (1, _SAME if value == call.value else _DIFFERENT)
        case _:
            return (1, call.value), (1, _SAME)


def _says_what_it_changed(call: Call) -> bool:
    """Who declares or deletes, and hears that it is so now, does not hear whether it was so before."""
    return call.kind is Kind.READ or call.result == (1, _DIFFERENT)


NAMES = Model(_step, only_reads_tell_values=False, says_what_it_changed=_says_what_it_changed)


def _as_register_calls(calls: list[NameCall]) -> list[Call]:
    """With moments that are counted. Of two at the same time a beginning comes first: who may overlap does."""
    moments = sorted(
        [(call.began, 0, at) for at, call in enumerate(calls)] + [(call.ended, 1, at) for at, call in enumerate(calls)]
    )
    counted = {(end, at): moment for moment, (_, end, at) in enumerate(moments)}
    return [
        Call(
            _KINDS[call.verb],
            counted[0, at],
            NEVER if call.ended == OPEN else counted[1, at],
            call.value.encode(),
            result=None if call.answer is None else _RESULTS[call.answer][call.verb],
        )
        for at, call in enumerate(calls)
    ]


def _shown(calls: list[NameCall]) -> str:
    in_order = sorted(calls, key=lambda call: call.began)
    rest = f" (and {len(calls) - SHOWN_MAX} before)" if len(calls) > SHOWN_MAX else ""
    return "; ".join(str(call) for call in in_order[-SHOWN_MAX:]) + rest
