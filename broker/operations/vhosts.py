"""Vhosts: to look at, to make and to delete, and their limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from broker.catalog import permissions
from broker.catalog.commands import catalog_commands as commands
from broker.errors import PreconditionFailed
from broker.login.audit import as_actor_of_now
from broker.operations.operator import ADMINISTRATOR, MANAGEMENT, Operator, check_named
from broker.pending import Pending
from broker.records import PermissionRecord, VhostRecord

if TYPE_CHECKING:
    from broker.broker import Broker

EVERYTHING = ".*"


class VhostProtected(PreconditionFailed):
    """Returned when a vhost that is protected from deletion was to be deleted."""


class Vhosts:
    def __init__(self, broker: Broker) -> None:
        self._catalog = broker.catalog
        self._submit = broker.metadata.submit

    def listed(self, who: Operator) -> list[VhostRecord]:
        """Those that they may see."""
        who.require_tag(MANAGEMENT)
        return [self._catalog.vhosts[name] for name in who.vhosts(self._catalog, None)]

    def one(self, who: Operator, name: str) -> VhostRecord:
        who.require_tag(MANAGEMENT)
        who.check_may_see(self._catalog, name)
        return self._catalog.vhosts[name]

    def may_use(self, who: Operator, name: str) -> bool:
        """Whether it exists and they have permissions there; administrators need none."""
        return name in self._catalog.vhosts and (
            who.has_tag(ADMINISTRATOR) or permissions.may_enter(self._catalog, who, name)
        )

    def put(self, who: Operator, record: VhostRecord, limits: Mapping[str, int] | None = None) -> Pending[bool]:
        """Answers whether it existed. Without limits those that it has stay. Its maker may use a new vhost at once, as with
        RabbitMQ, unless somebody else says what they may do."""
        who.require_tag(ADMINISTRATOR)
        check_named("vhost", record.name)
        existed = record.name in self._catalog.vhosts
        answer = self._submit(commands.PutVhost(record))
        if not existed and who.vouched is None:
            everything = PermissionRecord(who.name, record.name, EVERYTHING, EVERYTHING, EVERYTHING)
            answer = self._then(answer, commands.PutPermission(everything))
        if limits:
            answer = self._then(answer, commands.SetVhostLimits(record.name, dict(limits)))
        return answer.map(lambda _: existed)

    def _then(self, answer: Pending[Any], command: commands.Command) -> Pending[Any]:
        return answer.then_ask(as_actor_of_now(lambda _: self._submit(command)))

    def delete(self, who: Operator, name: str) -> Pending[Any]:
        who.require_tag(ADMINISTRATOR)
        check_named("vhost", name)
        record = self._catalog.vhosts.get(name)
        if record is not None and record.protected_from_deletion:
            raise VhostProtected(f"vhost '{name}' is protected from deletion")
        return self._submit(commands.DeleteVhost(name))

    def protect(self, who: Operator, name: str, *, protected: bool) -> Pending[Any]:
        """From deletion."""
        who.require_tag(ADMINISTRATOR)
        who.check_may_see(self._catalog, name)
        record = replace(self._catalog.vhosts[name], protected_from_deletion=protected)
        return self._submit(commands.PutVhost(record))

    def is_traced(self, name: str) -> bool:
        """False also for one that does not exist."""
        return name in self._catalog.traced_vhosts

    def trace(self, who: Operator, name: str, *, on: bool) -> Pending[Any]:
        """Whether copies of its messages go to amq.rabbitmq.trace. Raises NotFound."""
        who.require_tag(ADMINISTRATOR)
        who.check_may_see(self._catalog, name)
        return self._submit(commands.PutVhost(replace(self._catalog.vhosts[name], tracing=on)))

    def set_limits(self, who: Operator, name: str, limits: Mapping[str, int]) -> Pending[Any]:
        """What is not named is lifted."""
        who.require_tag(ADMINISTRATOR)
        return self._submit(commands.SetVhostLimits(name, dict(limits)))

    def set_limit(self, who: Operator, name: str, limit: str, value: int | None) -> Pending[Any]:
        """One of them; None lifts it. Raises NotFound."""
        who.require_tag(ADMINISTRATOR)
        who.check_may_see(self._catalog, name)
        return self.set_limits(who, name, changed_limits(self._catalog.vhosts[name].limits, limit, value))


def changed_limits(limits: Mapping[str, int], name: str, value: int | None) -> dict[str, int]:
    kept = {limit: number for limit, number in limits.items() if limit != name}
    return kept if value is None else {**kept, name: value}
