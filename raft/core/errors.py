"""What can be wrong with a call, by who can do what about it."""

from __future__ import annotations

from raft.core.messages import MemberId


class RaftError(Exception):
    """Anything below."""


class NotLeader(RaftError):
    """Returned when a proposal, read, change or transfer reaches a member that does not lead. Ask `leader`; 0: unknown."""

    def __init__(self, leader: MemberId) -> None:
        super().__init__(f"member {leader} leads this group" if leader else "this group has no leader at the moment")
        self.leader = leader


class Busy(RaftError):
    """Returned when too much waits to be committed, or a leadership is being handed over. Nothing was taken: try again."""


class TooLarge(RaftError):
    """Returned when a command is larger than an entry may be. Nothing was taken, and trying again is of no use."""


class ChangePending(RaftError):
    """Returned when a membership change is asked for while another one is not committed, or before the leader has
    committed an entry of its own term. Try again."""


class BadChange(RaftError):
    """Returned when a membership change makes no sense, such as adding a member twice or removing the last voter."""


class Compacted(RaftError):
    """Returned when an entry is asked for that only the snapshot still covers."""

    def __init__(self, index: int, first_index: int) -> None:
        super().__init__(f"entry {index} was compacted; the log begins at {first_index}")
        self.index = index
        self.first_index = first_index


class Damaged(RaftError):
    """Returned when what is stored is not what was written. The member must not be trusted with its old number any more.
    `index`: of the entry that cannot be read; 0: it is the snapshot, or unknown."""

    def __init__(self, text: str, index: int = 0) -> None:
        super().__init__(text)
        self.index = index


class CannotApply(RaftError):
    """Returned when the machine of this member fails on a committed entry or on a snapshot, most often because a later version
    wrote it. Guessing would part it from the others: the member applies nothing more and leads nothing until this node knows
    how to go on."""


class Superseded(Damaged):
    """Returned when others speak of a later member of this node than the one that is stored here: the disk is an old copy.
    `later`: that member."""

    def __init__(self, text: str, later: MemberId) -> None:
        super().__init__(text)
        self.later = later


class ReadmittedEarly(Superseded):
    """Returned when the member that is stored here was removed, and `later`, which this process promised to the leader, was
    taken in before this node heard of that. Nothing is lost: nobody counts on the one that is here any more."""


class Forgotten(Damaged):
    """Returned when a member no longer has an entry that it acknowledged to its leader: the disk confirmed an fsync and lost
    what was written, or is an old copy. What it still has is sound, and `index` is the first entry behind that.
    `acknowledged`: the entry that the leader counts on."""

    def __init__(self, text: str, index: int, acknowledged: int) -> None:
        super().__init__(text, index)
        self.acknowledged = acknowledged


class NumbersUsedUp(RaftError):
    """Returned when a member is to begin, and none of the numbers is left that the disk was granted."""


class Unknown(RaftError):
    """Told to who waits for a proposal whose fate this node cannot know any more: it may be applied or not."""


class BadBytes(RaftError):
    """Returned when bytes of a peer or of a file are not what they should be. Nothing of them was taken."""
