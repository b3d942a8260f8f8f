"""Runtime parameters: of a component in a vhost, and global ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker.catalog.commands import catalog_commands as commands
from broker.catalog.definitions.definition_item import ENTRY_NESTING_MAX, nested_at_most
from broker.catalog.definitions.definitions_writer import OPERATOR_POLICIES, VHOST_LIMITS, parameters_of
from broker.errors import InvalidRequest, NotFound
from broker.operations.operator import POLICYMAKER, Operator, check_named
from broker.pending import Pending
from broker.records import ParameterRecord

if TYPE_CHECKING:
    from broker.broker import Broker

KEPT = frozenset({"federation-upstream", "federation-upstream-set", "shovel"})
POLICIES = "policy"
# Things of their own here, which are listed as parameters.
SET_ELSEWHERE = frozenset({POLICIES, OPERATOR_POLICIES, VHOST_LIMITS})
NESTING_MAX = ENTRY_NESTING_MAX - 1  # it lies in an entry of definitions
GLOBAL = ""  # the vhost of a global parameter, and its component


@dataclass(slots=True, frozen=True)
class ParameterView:
    vhost: str
    component: str
    name: str
    value: Any


class Parameters:
    def __init__(self, broker: Broker) -> None:
        # By component: raises ValueError, with what is wrong, for a value that means nothing to what reads it.
        self.checks: dict[str, Callable[[str, Any], object]] = {}
        self._catalog = broker.catalog
        self._submit = broker.metadata.submit

    # of a component

    def listed(self, who: Operator, component: str | None, vhost: str | None) -> Iterator[ParameterView]:
        """Perhaps only those of one component; of one vhost, or all that they may see."""
        who.require_tag(POLICYMAKER)
        return (
            ParameterView(name, item["component"], item["name"], item["value"])
            for name in who.vhosts(self._catalog, vhost)
            for item in parameters_of(self._catalog, name)
            if component in (None, item["component"])
        )

    def one(self, who: Operator, component: str, vhost: str, name: str) -> ParameterView:
        """Raises NotFound."""
        for view in self.listed(who, component, vhost):
            if view.name == name:
                return view
        raise NotFound(f"no parameter '{name}' of component '{component}' in vhost '{vhost}'")

    def set(self, who: Operator, record: ParameterRecord) -> Pending[bool]:
        """Answers whether there was one. Raises InvalidRequest for a component that keeps none."""
        who.require_tag(POLICYMAKER)
        who.check_may_see(self._catalog, record.vhost)
        check_named("parameter", record.name)
        if record.component in SET_ELSEWHERE:
            raise InvalidRequest(f"parameters of component '{record.component}' have a path of their own to be set by")
        if record.component not in KEPT:
            raise InvalidRequest(_no_component(record.component))
        if fault := self.fault_of(record):
            raise InvalidRequest(f"Validation failed\n\n{fault}")
        return self._set(record)

    def fault_of(self, record: ParameterRecord) -> str | None:
        """Why its value means nothing to what would read it."""
        if record.vhost == GLOBAL:
            return None
        if record.component not in KEPT:
            return _no_component(record.component)
        check = self.checks.get(record.component)
        if check is not None:
            try:
                check(record.name, record.value)
            except ValueError as error:
                return str(error)
        return None

    def clear(self, who: Operator, component: str, vhost: str, name: str) -> Pending[Any]:
        """Raises NotFound."""
        self.one(who, component, vhost, name)
        return self._submit(commands.ClearParameter(vhost, component, name))

    # global ones

    def listed_global(self, who: Operator) -> list[ParameterRecord]:
        who.require_tag(POLICYMAKER)
        return [record for record in self._catalog.parameters() if record.vhost == GLOBAL]

    def one_global(self, who: Operator, name: str) -> ParameterRecord:
        """Raises NotFound."""
        who.require_tag(POLICYMAKER)
        record = self._catalog.parameter(GLOBAL, GLOBAL, name)
        if record is None:
            raise NotFound(f"no global parameter '{name}'")
        return record

    def set_global(self, who: Operator, name: str, value: Any) -> Pending[bool]:
        """Answers whether there was one."""
        who.require_tag(POLICYMAKER)
        check_named("parameter", name)
        return self._set(ParameterRecord(GLOBAL, GLOBAL, name, value))

    def clear_global(self, who: Operator, name: str) -> Pending[Any]:
        """Raises NotFound."""
        self.one_global(who, name)
        return self._submit(commands.ClearParameter(GLOBAL, GLOBAL, name))

    def _set(self, record: ParameterRecord) -> Pending[bool]:
        """A value that is nested deeper could be kept, and no export that has it could be written or imported."""
        if not nested_at_most(record.value, NESTING_MAX):
            said = (
                f"the value of parameter '{record.name}' has more than {NESTING_MAX} lists or objects within each other"
            )
            raise InvalidRequest(said)
        existed = self._catalog.parameter(record.vhost, record.component, record.name) is not None
        return self._submit(commands.SetParameter(record)).map(lambda _: existed)


def _no_component(name: str) -> str:
    return f"component {name} not found: there are {', '.join(sorted(KEPT))}"
