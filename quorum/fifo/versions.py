"""The machine's versions: sets of rules under which commands are applied, and formats of snapshots.

A group begins at VERSION_OLDEST and goes up only by an UPGRADE command, which the leader proposes once every member's node
knows the version; so all members change their rules at the same entry. Code keeps the rules of every version from
VERSION_OLDEST on, and refuses what is beyond VERSION_NEWEST: it would have to guess.

    1   the first
    2   SETTLE with Outcome.RELEASED: back to the queue, seen and without a failure; before, it counted as one.
        A rejected message counts this delivery, too, before it goes to the dead letters
    3   CONSUME that is said again by who was refused: it is refused again; before, it was told that it consumes
    4   PURGE_ONCE, which is done once and tells the same count however often it is said. PURGE, which is not, stays for groups
        that are not there yet. What was purged and may be asked for again is in snapshots
    5   The digest that members compare covers the bytes of every entry, so the bodies too; before, what was handed out,
        settled and counted
    6   WINDOW, which changes how many messages a consumer may hold. It is in snapshots beside the prefetch that the consumer
        came with; before, it was that prefetch for as long as the consumer was there
    7   One entry moves at most ROWS_MAX rows (quorum/fifo/machine.py), whether they are handed out, settled, expired or beyond
        the limits; what is left is done by the entries behind it. Messages that were settled and not dealt with yet are in
        snapshots. Before, up to 20,000 rows expired in one entry, and everything else was done at once, however much it was
    8   A rule that changes the order of what comes back holds for what comes back from then on; what waits keeps its order and
        stays in front, and snapshots tell how much that is. Before, all of it was put in the new order by one entry.
        GET is answered LATER where one entry cannot move as many rows as lie before what it is to take; before, it moved all
    9   What its client never saw goes back to its old place: behind what else came back, and before what was never handed
        out. Before, it stood in line with the rest, in front of what its client returned later
   10   WITHDRAW, which takes out one message that waits, once, and tells the same however often it is said
"""

from __future__ import annotations

VERSION_OLDEST = 1
VERSION_NEWEST = 10

OUTCOMES_COUNTED = 2  # the version with which outcomes count as RabbitMQ counts them
REFUSED_AGAIN = 3  # the version with which who was refused is not told something else the second time
PURGED_ONCE = 4  # the version with which a purge that is said again is not done again
BODIES_COMPARED = 5  # the version with which members whose entries differ in a bit have different digests
WINDOWS_CHANGE = 6  # the version with which a consumer's window is not what it came with
BOUNDED = 7  # the version with which one entry moves no more than so many rows
ORDER_KEPT = 8  # the version with which a rule changes the order of what comes back later
GETS_BOUNDED = 8  # the version with which a get moves no more than so many rows
UNSEEN_IN_PLACE = 9  # the version with which what nobody saw goes back to its old place
WITHDRAWS = 10  # the version with which one message that waits can be taken out


def must_know(version: int) -> None:
    """Raises ValueError for a version that this code does not have the rules of."""
    if not VERSION_OLDEST <= version <= VERSION_NEWEST:
        raise ValueError(
            f"version {version} of a quorum queue is unknown here, {VERSION_OLDEST} to {VERSION_NEWEST} are known: "
            "update this node"
        )
