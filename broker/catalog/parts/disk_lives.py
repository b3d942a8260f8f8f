"""Which numbers the members on a disk may have: each life of a disk has a range of its own, above those of all earlier ones.

A *life* begins when a node joins with a data directory that has none yet, and ends when that directory is lost. The catalog
grants it (JoinNode), so nobody has to remember what a lost disk knew. Within its life a node counts upward on its disk
(raft/store/replicas.py, node/identity.py). Numbers are those of replicas, 32 bits, for each node by itself:

    below FIRST_LIFE                        given by nodes of earlier builds, as seconds since 1970
    FIRST_LIFE + n * LIFE_NUMBERS and on    the life n, from 0; the last one is LIVES_MAX - 1

A node of an earlier build that is updated goes on in life 0, without asking: all that it ever gave is below. The catalog still
has a number below FIRST_LIFE for it then, and grants life 1 when its disk is lost.
"""

from __future__ import annotations

from broker.errors import PreconditionFailed

FIRST_LIFE = 1 << 31  # seconds since 1970 come here in 2038; whoever counted them by then is moved on, see life_behind
LIFE_NUMBERS = 1 << 24  # 256 for each start of a process, which may be as many as 65,536
LIVES_MAX = (1 << 31) // LIFE_NUMBERS


def life_of(number: int) -> int:
    """The first number of the life that this one belongs to."""
    return max(FIRST_LIFE, number // LIFE_NUMBERS * LIFE_NUMBERS)


def end_of_life(number: int) -> int:
    """The first number behind the life that this one belongs to."""
    return life_of(number) + LIFE_NUMBERS


def life_behind(number: int) -> int:
    """The first number of the life that follows that of a disk which had this number. Raises PreconditionFailed."""
    following = end_of_life(number)
    if following >= FIRST_LIFE + LIVES_MAX * LIFE_NUMBERS:
        raise PreconditionFailed(
            f"this node has come back with an empty disk {LIVES_MAX - 1} times, and there is no number left for another one: "
            f"forget the node, and it joins as a new one"
        )
    return following
