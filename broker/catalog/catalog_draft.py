"""A catalog in which commands are tried before anything is changed: it refuses what the real one would.

Of exchanges, queues and bindings it has those that the commands are about, for there may be a million others: `take` them
first. What is counted over all of them is counted as in the real catalog.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, product

from broker.catalog.catalog import Catalog
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.commands.catalog_commands import Command, Record
from broker.records import BindingRecord


class CatalogDraft(Catalog):
    """See the module."""

    def __init__(self, original: Catalog) -> None:
        super().__init__(original.limits)
        self._original = original
        self._others: dict[str, int] = {}  # by vhost: queues that it has and this one has not

    def take(self, wanted: Iterable[Command]) -> Iterator[None]:
        """In steps; meanwhile the original may change, of which this one sees some."""
        original = self._original
        of_all: list[Record] = [
            *original.nodes.values(),
            *original.vhosts.values(),
            *original.users.values(),
            *original.all_permissions(),
            *original.all_topic_permissions(),
            *chain.from_iterable(original.policies(*key) for key in product(original.vhosts, (False, True))),
            *original.parameters(),
        ]
        for record in of_all:
            self.load(record)
            yield
        for command in wanted:
            self._take_touched(command)
            yield
        self._counts = dict(original._counts)
        both = self.vhosts.keys() & original.vhosts.keys()
        self._others = {vhost: original.count_queues(vhost) - self.count_queues(vhost) for vhost in both}

    def count_queues(self, vhost: str) -> int:
        return super().count_queues(vhost) + self._others.get(vhost, 0)

    def _take_touched(self, command: Command) -> None:
        match command:
            case commands.DeclareExchange():
                self._take_exchange(command.record.vhost, command.record.name)
            case commands.DeclareQueue():
                self._take_queue(command.vhost, command.name)
            case commands.Bind():
                self._take_binding(command.record)

    def _take_binding(self, binding: BindingRecord) -> None:
        self._take_exchange(binding.vhost, binding.source)
        take = self._take_queue if binding.destination_kind == "queue" else self._take_exchange
        take(binding.vhost, binding.destination)
        if self._original.has_binding(binding) and self.exchange(binding.vhost, binding.source) is not None:
            self.load(binding)

    def _take_exchange(self, vhost: str, name: str) -> None:
        record = self._original.exchange(vhost, name)
        if record is not None and vhost in self.vhosts and self.exchange(vhost, name) is None:
            self.load(record)

    def _take_queue(self, vhost: str, name: str) -> None:
        record = self._original.queue(vhost, name)
        if record is not None and vhost in self.vhosts and self.queue(vhost, name) is None:
            self.load(record)
