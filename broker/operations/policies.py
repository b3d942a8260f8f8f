"""Policies and operator policies: to look at, to set and to clear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.catalog import permissions
from broker.catalog.commands import catalog_commands as commands
from broker.errors import NotFound
from broker.operations.operator import ADMINISTRATOR, MANAGEMENT, POLICYMAKER, Operator, check_named, no_access
from broker.pending import Pending
from broker.records import PolicyRecord

if TYPE_CHECKING:
    from broker.broker import Broker


class Policies:
    def __init__(self, broker: Broker) -> None:
        self._catalog = broker.catalog
        self._submit = broker.metadata.submit

    def listed(self, who: Operator, vhost: str | None, *, operator: bool) -> list[PolicyRecord]:
        """Policies explain queues: who may see those may see these."""
        who.require_tag(MANAGEMENT)
        vhosts = who.vhosts(self._catalog, vhost)
        return [record for name in vhosts for record in self._catalog.policies(name, operator)]

    def one(self, who: Operator, vhost: str, name: str, *, operator: bool) -> PolicyRecord:
        """Raises NotFound."""
        who.require_tag(MANAGEMENT)
        who.check_may_see(self._catalog, vhost)
        record = self._catalog.policy(vhost, name, operator)
        if record is None:
            raise NotFound(f"no {'operator policy' if operator else 'policy'} '{name}' in vhost '{vhost}'")
        return record

    def set(self, who: Operator, record: PolicyRecord) -> Pending[Any]:
        self._check_may_change(who, record.vhost, record.name, record.operator)
        return self._submit(commands.PutPolicy(record))

    def clear(self, who: Operator, vhost: str, name: str, *, operator: bool) -> Pending[Any]:
        self._check_may_change(who, vhost, name, operator)
        return self._submit(commands.DeletePolicy(vhost, name, operator))

    def _check_may_change(self, who: Operator, vhost: str, name: str, operator: bool) -> None:
        """Policies are made where their maker may go themselves; monitoring alone is only for looking."""
        who.require_tag(ADMINISTRATOR if operator else POLICYMAKER)
        if not who.has_tag(ADMINISTRATOR) and not permissions.may_enter(self._catalog, who, vhost):
            raise no_access(who, vhost)
        check_named("policy", name)
