"""A member of a group, as any kind of queue has it: its life on this node, and the digests by which members are compared.

    life          meaning                                       left by                                      for
    ABSENT        this node has no log of the group             the record names this node, or a log is      SERVING
                                                                found at a start: the member begins
                                                                and could not be stored                      PUT_OFF
                                                                and its snapshot cannot be read              DAMAGED
                                                                and its machine cannot go on                 QUARANTINED
    PUT_OFF       it is to begin, and could not be stored       tried again each second                      as from ABSENT
    SERVING       it takes part, and its machine applies        its log cannot be read, or a majority        DAMAGED
                                                                has come to another state
                                                                its machine cannot go on                     QUARANTINED
                                                                the group goes on without it                 ABSENT
    DAMAGED       it is given up; the store makes another       that one begins                              as from ABSENT
                  one, which the others repair                  it is the sole replica: the node restarts
    QUARANTINED   it votes and keeps what it is sent, and its   its log cannot be read                       DAMAGED
                  machine stands still                          the group goes on without it                 ABSENT

A member that begins founds the group, or begins empty under a new number, or goes on with its log:
replicated/local_members.py.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import NamedTuple, Protocol

from raft.core.messages import NodeId
from raft.machine import Machine

MARK_BITS = 6
MARK_ENTRIES = 1 << MARK_BITS
MARKS_MAX = 16  # a member that is further behind is compared when it has caught up


class MemberLife(Enum):
    """See the module."""

    ABSENT = "absent"
    PUT_OFF = "put off"
    SERVING = "serving"
    DAMAGED = "damaged"
    QUARANTINED = "quarantined"


class ComparedMachine(Protocol):
    """What the machine of a member must tell of itself."""

    @property
    def version(self) -> int: ...

    @property
    def applied(self) -> int:
        """Index of the last entry."""

    @property
    def digest(self) -> int:
        """Of all entries so far, and of what they did."""


class Marks:
    """The digests of one member's machine: as it was before the first entry of each MARK_ENTRIES."""

    __slots__ = ("_kept", "_stretch")

    def __init__(self) -> None:
        self._kept: deque[tuple[int, int]] = deque(maxlen=MARKS_MAX)
        self._stretch = -1

    def before(self, index: int, machine: ComparedMachine) -> None:
        """The entry at this index is about to be applied."""
        stretch = index >> MARK_BITS
        if stretch != self._stretch:
            self._stretch = stretch
            self._kept.append((machine.applied, machine.digest))

    def clear(self) -> None:
        """The machine was restored from a snapshot."""
        self._kept.clear()
        self._stretch = -1

    def all(self, machine: ComparedMachine) -> dict[int, int]:
        """Digests by index, that of the present state among them."""
        return dict(self._kept) | {machine.applied: machine.digest}


class ReplicatedMember(Machine, Protocol):
    """This node's member of a group. What Raft asks of it, and its machine and digests."""

    told_digests: dict[int, int]  # by index, when a leader asked for them last

    @property
    def machine(self) -> ComparedMachine: ...

    @property
    def marks(self) -> Marks: ...


class Odd(NamedTuple):
    """Nodes whose members are not as the majority's, and the entry after which that is seen."""

    nodes: tuple[NodeId, ...]
    at: int  # index of an entry
