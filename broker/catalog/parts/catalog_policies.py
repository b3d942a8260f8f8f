"""The part of the catalog with what holds for queues and exchanges beside their own arguments: policies. And parameters."""

from __future__ import annotations

from collections.abc import Iterable

from broker.catalog.commands import catalog_commands as commands
from broker.catalog.parts.catalog_limits import check_count
from broker.catalog.parts.catalog_part import CatalogPart
from broker.catalog.parts.namespace import Exchange
from broker.catalog.policy import EffectiveArguments, applying, check_policy, effective_arguments, merged_definition
from broker.names import check_name, final_name
from broker.records import ExchangeRecord, ParameterRecord, PolicyRecord, QueueRecord


class CatalogPolicies(CatalogPart):
    """What follows from policies is found when it is asked for, and kept until one of them changes."""

    _policies: dict[str, dict[tuple[bool, str], PolicyRecord]]
    _parameters: dict[tuple[str, str, str], ParameterRecord]
    _effective: dict[int, EffectiveArguments]  # by queue id; emptied when a policy changes

    def policies(self, vhost: str, operator: bool = False) -> Iterable[PolicyRecord]:
        return (record for record in self._policies.get(vhost, {}).values() if record.operator == operator)

    def policy(self, vhost: str, name: str, operator: bool = False) -> PolicyRecord | None:
        return self._policies.get(vhost, {}).get((operator, name))

    def parameters(self) -> Iterable[ParameterRecord]:
        return self._parameters.values()

    def parameter(self, vhost: str, component: str, name: str) -> ParameterRecord | None:
        return self._parameters.get((vhost, component, name))

    def effective(self, record: QueueRecord) -> EffectiveArguments:
        """What holds for this queue now, its policies and arguments together."""
        found = self._effective.get(record.id)
        if found is None:
            name = final_name(record.name)
            user = applying(self.policies(record.vhost), record.kind, name)
            operator = applying(self.policies(record.vhost, operator=True), record.kind, name)
            found = self._effective[record.id] = effective_arguments(record, user, operator)
        return found

    def policy_of_exchange(self, record: ExchangeRecord) -> PolicyRecord | None:
        return applying(self.policies(record.vhost), "exchange", record.name)

    def alternate_exchange(self, vhost: str, exchange: Exchange) -> str | None:
        """Where this exchange's unroutable messages go: its argument says, else its policy."""
        if not exchange.alternate_known:
            alternate = exchange.record.arguments.get("alternate-exchange")
            if alternate is None:
                policy = self.policy_of_exchange(exchange.record)
                alternate = merged_definition(policy, None).get("alternate-exchange")
            exchange.alternate, exchange.alternate_known = alternate, True
        return exchange.alternate

    # commands

    def put_policy(self, command: commands.PutPolicy) -> PolicyRecord:
        record = command.record
        self.namespace(record.vhost)
        check_name("policy", record.name)
        check_policy(record, self.limits.regex_length)
        policies = self._policies.setdefault(record.vhost, {})
        if (record.operator, record.name) not in policies:
            check_count("policies", sum(map(len, self._policies.values())), self.limits.policies)
        policies[record.operator, record.name] = record
        self._policies_changed(record.vhost)
        self._changed(record, True)
        return record

    def delete_policy(self, command: commands.DeletePolicy) -> PolicyRecord | None:
        record = self._policies.get(command.vhost, {}).pop((command.operator, command.name), None)
        if record is not None:
            self._policies_changed(command.vhost)
            self._changed(record, False)
        return record

    def _policies_changed(self, vhost: str) -> None:
        self._effective.clear()
        for exchange in self.namespace(vhost).exchanges.values():
            exchange.alternate_known = False

    def set_parameter(self, command: commands.SetParameter) -> ParameterRecord:
        record = command.record
        if record.vhost:
            self.namespace(record.vhost)
        check_name("parameter", record.name)
        key = record.vhost, record.component, record.name
        if key not in self._parameters:
            check_count("parameters", len(self._parameters), self.limits.parameters)
        self._parameters[key] = record
        self._changed(record, True)
        return record

    def clear_parameter(self, command: commands.ClearParameter) -> ParameterRecord | None:
        record = self._parameters.pop((command.vhost, command.component, command.name), None)
        if record is not None:
            self._changed(record, False)
        return record

    def _delete_policies(self, vhost: str) -> None:
        """Of a vhost that is deleted; its parameters too."""
        for policy in self._policies.pop(vhost, {}).values():
            self._changed(policy, False)
        for key in [key for key in self._parameters if key[0] == vhost]:
            self._changed(self._parameters.pop(key), False)

    # taking back what was stored

    def _load_policy(self, record: PolicyRecord) -> None:
        self._policies.setdefault(record.vhost, {})[record.operator, record.name] = record

    def _load_parameter(self, record: ParameterRecord) -> None:
        self._parameters[record.vhost, record.component, record.name] = record
