"""The dumb twin of catalog and routing: lists, and a linear search for everything."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from broker.records import BindingRecord, ExchangeRecord
from tests.unit.broker.topic_grammar import matches


@dataclass
class Twin:
    """One vhost. Exchanges and queues by name in order, bindings in order."""

    exchanges: dict[str, ExchangeRecord] = field(default_factory=dict)
    queues: list[str] = field(default_factory=list)
    bindings: list[BindingRecord] = field(default_factory=list)

    def bind(self, binding: BindingRecord) -> None:
        if binding not in self.bindings:
            self.bindings.append(binding)

    def unbind(self, binding: BindingRecord) -> None:
        if binding in self.bindings:
            self.bindings.remove(binding)
            self.sweep({binding.source})

    def delete_queue(self, name: str) -> None:
        self.queues.remove(name)
        self.drop_bindings("queue", name)

    def delete_exchange(self, name: str) -> None:
        del self.exchanges[name]
        self.bindings = [binding for binding in self.bindings if binding.source != name]
        self.drop_bindings("exchange", name)

    def drop_bindings(self, kind: str, name: str) -> None:
        gone = [b for b in self.bindings if b.destination_kind == kind and b.destination == name]
        self.bindings = [binding for binding in self.bindings if binding not in gone]
        self.sweep({binding.source for binding in gone})

    def sweep(self, sources: set[str]) -> None:
        """Auto-delete exchanges among those that have just lost a binding."""
        for name in sources:
            record = self.exchanges.get(name)
            if record and record.auto_delete and not any(binding.source == name for binding in self.bindings):
                self.delete_exchange(name)

    def route(self, exchange: str, keys: list[str], headers: dict[str, Any]) -> set[str]:
        queues: set[str] = set()
        visited: set[str] = set()
        ahead = [exchange]
        while ahead:
            name = ahead.pop()
            if name in visited:
                continue
            visited.add(name)
            if name == "":
                queues.update(key for key in keys if key in self.queues)
                continue
            if name not in self.exchanges:
                continue
            hits = [b for b in self.bindings if b.source == name and self.hit(b, keys, headers)]
            queues.update(b.destination for b in hits if b.destination_kind == "queue")
            ahead.extend(b.destination for b in hits if b.destination_kind == "exchange")
            alternate = self.exchanges[name].arguments.get("alternate-exchange")
            if not hits and alternate is not None:
                ahead.append(alternate)
        return queues

    def hit(self, binding: BindingRecord, keys: list[str], headers: dict[str, Any]) -> bool:
        kind = self.exchanges[binding.source].kind
        if kind == "fanout":
            return True
        if kind == "direct":
            return binding.routing_key in keys
        if kind == "topic":
            return any(matches(binding.routing_key, key) for key in keys)
        mode = binding.arguments.get("x-match", "all")
        results = []
        for name, value in binding.arguments.items():
            if name == "x-match" or (name.startswith("x-") and not mode.endswith("with-x")):
                continue
            results.append(name in headers and (value is None or headers[name] == value))
        return all(results) if mode.startswith("all") else any(results)
