"""What the nodes' logs prove after a run, beside what clients saw. The two must never disagree:

- a proof that a queue's messages are all accounted for, where the judge finds that some were lost;
- a proof that some are missing, where the judge finds nothing;
- a proof over fewer messages than were confirmed, or of messages that a drained queue still has.

What came to a queue whose disk was lost stands in no log that there is, so there a proof may say that it does not know. Where
no fault has taken anything from the logs it may not: a proof that never knew anything would contradict nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from analytics.jobs.answer import EXIT_HOLDS, EXIT_MISSING, EXIT_UNKNOWN
from analytics.jobs.proof import ProofRow, code_of
from tests.histories.book import Book, kept
from tests.histories.records import History
from tests.histories.rules import QueueRules, Rules
from tests.ledger.plain_proof import proofs


def proofs_of_nodes(data_dirs: Mapping[str, Path], directory: Path) -> dict[str, ProofRow]:
    """Of each queue, from the logs of all nodes together. `directory`: for a link to each, by its node's name."""
    directory.mkdir()
    for node, data_dir in data_dirs.items():
        (directory / node).symlink_to(data_dir)
    return proofs(directory)


def unproved(rows: Mapping[str, ProofRow]) -> dict[str, str]:
    """Of which queues the logs prove nothing, and why."""
    return {name: row.why or "" for name, row in sorted(rows.items()) if code_of(row) == EXIT_UNKNOWN}


def doubts(rows: Mapping[str, ProofRow], rules: Rules) -> Iterator[str]:
    """What is wrong where all that happened must be in the logs: each queue that is judged has to be proved, one way or the
    other. Of one that stands in no log `disagreements` speaks."""
    for name, why in unproved(rows).items():
        if name in rules.by_name:
            yield f"{name}: nothing was taken from the logs, and they prove nothing of it: {why}"


def disagreements(rows: Mapping[str, ProofRow], history: History, rules: Rules, judged: Sequence[str]) -> Iterator[str]:
    """`judged`: what the judge finds wrong."""
    book = kept(history)
    for queue in rules.queues:
        row = rows.get(queue.name)
        blamed = [one for one in judged if one.startswith(f"{queue.name}:")]
        if row is None:
            if queue.keeps_confirmed and _known(book, queue, rules):
                yield f"{queue.name}: no log tells of it, though clients do"
        elif code_of(row) == EXIT_MISSING and queue.keeps_confirmed and not blamed:
            yield f"{queue.name}: clients miss nothing, and the logs say that {row.missing} are missing: {row}"
        elif code_of(row) == EXIT_HOLDS and queue.keeps_confirmed:
            yield from _too_good(row, queue, book, rules, blamed)


def _too_good(row: ProofRow, queue: QueueRules, book: Book, rules: Rules, blamed: Sequence[str]) -> Iterator[str]:
    """What speaks against a proof that holds."""
    if any("lost" in one for one in blamed):
        yield f"{queue.name}: the logs account for all, and clients miss some: {row}"
    seen = _known(book, queue, rules)
    if row.promised < seen:
        yield f"{queue.name}: clients know of {seen} messages, and the logs of {row.promised}: {row}"
    if row.present and queue.drains and not blamed:
        yield f"{queue.name}: it was drained, and the logs say that {row.present} are there: {row}"


def _known(book: Book, queue: QueueRules, rules: Rules) -> int:
    """How many messages its log must have. What was delivered and never confirmed need not be in any: a classic queue hands out
    before the disk has what it hands out."""
    sent = {message for message in book.confirmed if rules.is_fed_directly(message, queue)}
    came = {message for message, _ in book.deliveries_of(queue.name) if message in book.confirmed}
    return len(sent | came)
