"""Which bindings of a federated exchange its upstream is to have.

Those of the exchange that agree on routing key and arguments are one there, as long as there is any of them: where they lead
does not matter. They are compared with what the catalog has, in steps, for an exchange may have a hundred thousand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from broker.catalog.parts.namespace import BindingIdentity
from broker.records import Arguments, BindingRecord

COMPARED_PER_STEP = 500

Copy = tuple[str, bytes]  # routing key, encoded arguments


class CopiedBindings:
    """See the module. `changes` has what is to be bound (True) or unbound at the upstream since it was looked at last."""

    def __init__(self) -> None:
        self.changes: dict[Copy, bool] = {}
        self._seen: dict[BindingIdentity, None] = {}
        self._counts: dict[Copy, int] = {}
        self._arguments: dict[Copy, Arguments] = {}
        self._unbound: dict[Copy, Arguments] = {}  # of those in `changes` that are to go

    def __len__(self) -> int:
        return len(self._seen)

    def compare(self, outgoing: Mapping[BindingIdentity, BindingRecord]) -> Iterator[None]:
        """With the bindings of the exchange as they are now."""
        now = dict(outgoing)
        for count, (identity, record) in enumerate(now.items(), 1):
            if identity not in self._seen:
                self._came(identity, record)
            if count % COMPARED_PER_STEP == 0:
                yield
        for count, identity in enumerate(list(self._seen), 1):
            if identity not in now:
                self._went(identity)
            if count % COMPARED_PER_STEP == 0:
                yield

    def all(self) -> list[tuple[str, Arguments]]:
        """Each copy that there is to be. Nothing of it is a change any more."""
        self.changes.clear()
        self._unbound.clear()
        return [(key, arguments) for (key, _), arguments in self._arguments.items()]

    def take_changes(self) -> list[tuple[bool, str, Arguments]]:
        found = [
            (is_bound, copy[0], self._arguments[copy] if is_bound else self._unbound[copy])
            for copy, is_bound in self.changes.items()
        ]
        self.changes.clear()
        self._unbound.clear()
        return found

    def _came(self, identity: BindingIdentity, record: BindingRecord) -> None:
        self._seen[identity] = None
        copy = _copy_of(identity)
        count = self._counts[copy] = self._counts.get(copy, 0) + 1
        if count == 1:
            self._arguments[copy] = record.arguments
            self._change(copy, True)

    def _went(self, identity: BindingIdentity) -> None:
        del self._seen[identity]
        copy = _copy_of(identity)
        self._counts[copy] -= 1
        if not self._counts[copy]:
            del self._counts[copy]
            self._unbound[copy] = self._arguments.pop(copy)
            self._change(copy, False)

    def _change(self, copy: Copy, is_bound: bool) -> None:
        """What comes and goes before anybody looks has never been."""
        if self.changes.pop(copy, is_bound) is is_bound:
            self.changes[copy] = is_bound
        if self.changes.get(copy) is not False:
            self._unbound.pop(copy, None)


def _copy_of(identity: BindingIdentity) -> Copy:
    return identity[3], identity[4]
