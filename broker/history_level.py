"""How much the log of a node says of what clients did, beside what it needs to keep its promises.

    off     when: the time of each commit and of each declaration, and up to where replicated logs are committed
    basic   also who and why: publishers, consumers, why a message left its queue or came back to it
    full    also how many messages the log does not have, why, and who published them; how far consumers of streams are;
            which messages of classic queues consumers have; what each classic queue had when a file of the log began to tell
            of it

The configuration decides (`history.level`); every kind of queue finds it at its broker. See docs/history.md.
"""

from __future__ import annotations

from enum import IntEnum


class HistoryLevel(IntEnum):
    """Each level says all that the ones below it say, so levels are compared with `>=`."""

    OFF = 0
    BASIC = 1
    FULL = 2


LEVELS = {level.name.lower(): level for level in HistoryLevel}  # as the configuration spells them
