"""The numbers a member goes by. Seconds are of the monotonic clock that the driver hands in."""

from __future__ import annotations

from dataclasses import dataclass, fields

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """Of one group, or shared by all groups of a node. Raises ValueError for numbers that cannot work."""

    election_min_s: float = 0.05
    """A member without a leader that it trusts waits a random time between these two before it campaigns."""
    election_max_s: float = 0.3
    eagerness: float = 1.0
    """Divides that wait: a member with 4 campaigns long before one with 1, so a preferred member usually leads. At most one
    of a group has more than 1: in a new group it waits for nothing."""
    heir_s: float = 0.02
    """Where the leader's node hung up, one follower, on which all agree that know of it, waits no longer than this: about as
    long as the others take to know it, too. Its attempt may fail; then it waits as any other."""
    election_backoff_max: int = 4
    """A member that keeps failing doubles its wait this many times at most."""

    resend_s: float = 0.5
    """A trusted follower that owes an answer is asked again after this."""
    commit_news_s: float = 0.01
    """How long news of a commit may wait for entries to travel with; without any they go alone."""
    transfer_timeout_s: float = 2.0
    """A leadership that was not taken over within this is kept."""

    entry_bytes_max: int = 32 * _MIB
    """A larger command is refused. Other nodes take no letter above a bound of theirs (LinkLimits): an entry that does not fit
    would end the stream to each of them, with all that other groups say, whenever it is sent."""
    append_bytes_max: int = _MIB
    """Of entries in one message; a single entry may be larger."""
    window_bytes_max: int = 8 * _MIB
    """Of entries on their way to one follower that has not acknowledged them."""
    window_messages_max: int = 64
    catch_up_bytes_max: int = _MIB // 4
    """Of entries in one message, when they are read from the store: reading them holds up everything else."""
    catch_up_messages_max: int = 4
    """Of those, on their way to one follower."""
    uncommitted_bytes_max: int = 64 * _MIB
    """Beyond this, proposals are refused with Busy; a single larger one is taken when nothing else waits."""
    apply_bytes_max: int = 4 * _MIB
    """Of committed entries in one Ready."""

    snapshot_chunk_bytes: int = _MIB // 4
    """Reading one holds up everything else, as above: with 1 MiB a publisher beside it waited twice as long."""
    snapshot_window_chunks: int = 8
    """Chunks on their way to one follower."""

    promote_lag_entries: int = 64
    """A promotable learner has caught up when it lacks no more than this."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            lowest_is_zero = field.name in ("election_backoff_max", "commit_news_s", "promote_lag_entries")
            if value < 0 or (value == 0 and not lowest_is_zero):
                raise ValueError(f"{field.name} is {value}; it must be {'0 or more' if lowest_is_zero else 'above 0'}")
        if self.election_max_s < self.election_min_s:
            raise ValueError(f"election_max_s {self.election_max_s} is below election_min_s {self.election_min_s}")
