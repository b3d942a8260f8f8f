"""Queues that come and go: each declaration after a deletion begins another life under the same name.

To histories, ledgers and books each life is a queue of its own, labelled `name#id`. A client that publishes does not know which
life it meets; what each life has stored says it. Nothing of another life may come out of it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from broker.catalog.carrying_out import CommandOutcome
from broker.catalog.commands import catalog_commands as commands
from broker.names import final_name
from broker.records import QueueRecord
from tests.histories.records import Message
from tests.sim.brokers import invariants
from tests.sim.brokers.invariants import About
from tests.sim.brokers.plan import LIVES


def label_of(record: QueueRecord) -> str:
    """What a queue, or a life of it, is called here."""
    return f"{record.name}#{record.id}" if record.name in LIVES else record.name


def name_of(label: str) -> str:
    return label.partition("#")[0]


def home_of(classic: QueueRecord) -> int:
    """The number of the node that has it."""
    return int(classic.home.removeprefix("n"))


def message_of(body: bytes) -> Message:
    publisher, number, _ = body.split(b":", 2)
    return publisher.decode(), int(number)


@dataclass
class Lives:
    """As the log of the catalog has them."""

    records: dict[int, QueueRecord] = field(default_factory=dict)  # of all queues that ever were, by id
    deleted: dict[int, bool] = field(default_factory=dict)

    def follow(self, about: About, outcome: CommandOutcome) -> bool:
        """Whether a queue is declared again, in a life of its own."""
        if outcome.error is not None or not isinstance(outcome.result, QueueRecord):
            return False
        record, command = outcome.result, outcome.command
        if isinstance(command, commands.DeleteQueue):
            self.deleted[record.id] = True
        elif isinstance(command, commands.DeclareQueue) and not self._goes_on(record):
            invariants.lives_have_numbers_of_their_own(about, record.name, record.id, record.id in self.records)
            is_again = bool(self.of(record.name))
            self.records[record.id] = record
            return is_again
        return False

    def _goes_on(self, record: QueueRecord) -> bool:
        """Whether it was there already when it was declared, perhaps for another one that it has become since."""
        known = self.records.get(record.id)
        return (
            known is not None and record.name in (known.name, final_name(known.name)) and record.id not in self.deleted
        )

    def of(self, name: str) -> list[str]:
        """The labels of all lives of this name."""
        return [label_of(record) for record in self.records.values() if record.name == name]

    def last(self, label: str) -> QueueRecord | None:
        """This life, if it goes on."""
        return next(
            (one for one in self.records.values() if label_of(one) == label and one.id not in self.deleted), None
        )

    def living(self, names: Collection[str]) -> list[str]:
        return [label for name in names for label in self.of(name) if self.last(label)]
