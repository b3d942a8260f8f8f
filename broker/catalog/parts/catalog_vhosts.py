"""The part of the catalog that says which vhosts there are, how much there may be in them, and which are traced."""

from __future__ import annotations

from dataclasses import replace

from broker.catalog.commands import catalog_commands as commands
from broker.catalog.parts.catalog_part import CatalogPart
from broker.errors import NotFound
from broker.limits import VHOST_LIMITS, check_limits, given_limits
from broker.records import VhostRecord


class CatalogVhosts(CatalogPart):
    """What is in them is in their namespaces."""

    vhosts: dict[str, VhostRecord]
    traced_vhosts: set[str]  # the same set for ever: who asks for each message keeps it

    def keep_vhost(self, record: VhostRecord) -> None:
        self.vhosts[record.name] = record
        if record.tracing:
            self.traced_vhosts.add(record.name)
        else:
            self.traced_vhosts.discard(record.name)
        self._note_rates("vhost", record.name, record.limits)

    def give_up_vhost(self, name: str) -> None:
        del self.vhosts[name]
        self.traced_vhosts.discard(name)
        self._note_rates("vhost", name, {})

    # commands

    def set_vhost_limits(self, command: commands.SetVhostLimits) -> VhostRecord:
        record = self.vhosts.get(command.vhost)
        if record is None:
            raise NotFound(f"no vhost '{command.vhost}'")
        check_limits(command.limits, VHOST_LIMITS)
        record = replace(record, limits=given_limits(command.limits))
        self.keep_vhost(record)
        self._changed(record, True)
        return record
