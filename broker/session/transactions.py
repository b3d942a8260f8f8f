"""What a session gathers between tx.select and tx.commit: its publishes and its settlements, in order.

A commit is not atomic across queues: each takes what it is given, over several turns where that is much. The client learns
whether all did. Its settlements are written after the answer, as other settlements are: after a crash a message may come again.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.errors import PreconditionFailed, ResourceExhausted
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.queues.queue_type import Outcome
from broker.routing.targets import Target
from broker.session.deliveries import Held

CARRIED_OUT_PER_STEP = 50  # publishes or settlements: some 20 us each
TRANSACTION_BYTES_MAX = 128 << 20  # who raises the alarm of memory with it is not read, and never commits
RUN_BYTES = 500  # of memory, besides its content
MESSAGES_AS_A_PUBLISH = 8  # of a run: where a queue looks at each by itself


class Transaction:
    """What waits for commit. Who may publish where was checked when it was published."""

    __slots__ = ("_bytes", "publishes", "settlements")

    def __init__(self) -> None:
        self.publishes: list[tuple[Run, Target]] = []
        self.settlements: list[tuple[list[Held], Outcome]] = []
        self._bytes = 0

    def add(self, run: Run, target: Target) -> None:
        """Raises ResourceExhausted."""
        self._bytes += RUN_BYTES + len(run.content)
        if self._bytes > TRANSACTION_BYTES_MAX and self.publishes:  # one message may be larger
            raise ResourceExhausted(
                f"a transaction of more than {TRANSACTION_BYTES_MAX >> 20} MiB: what it holds is in memory. Commit more often"
            )
        self.publishes.append((run, target))


class Transactions:
    """Of one session. Its publisher and the session itself add to the current one."""

    __slots__ = ("current",)

    def __init__(self) -> None:
        self.current: Transaction | None = None  # None: the session is not transactional

    def select(self) -> None:
        if self.current is None:
            self.current = Transaction()

    def end(self) -> Transaction:
        """What was gathered; the next transaction begins."""
        ended = self.current
        if ended is None:
            raise PreconditionFailed("channel is not transactional")
        self.current = Transaction()
        return ended


class Completion:
    """Counts the receipts of one commit; calls back once, with how many runs were refused in whole or in part, when
    `close` was called and all receipts are in."""

    __slots__ = ("_done", "_refusals", "_waiting")

    def __init__(self, done: Callable[[int], None]) -> None:
        self._done = done
        self._waiting = 1  # the commit itself, until `close`
        self._refusals = 0

    def expect(self, count: int, queues: int) -> Receipt:
        self._waiting += 1
        return Receipt(self, 1, count, queues)

    def answered(self, receipt: Receipt) -> None:
        self._refusals += not receipt.taken
        self.close()

    def given_up(self, receipt: Receipt) -> None:
        self._refusals += 1
        self.close()

    def close(self) -> None:
        self._waiting -= 1
        if self._waiting == 0:
            self._done(self._refusals)
