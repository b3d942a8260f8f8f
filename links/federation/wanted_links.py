"""Which links there should be: for each exchange and queue with a policy that federates it, one to each upstream it names.

federation-upstream           one upstream
federation-upstream-set       those that a set lists, or all of the virtual host
federation-upstream-pattern   those whose names match
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from broker.catalog.arguments import FEDERATION_KEYS
from broker.catalog.catalog import Catalog
from broker.catalog.patterns import matches
from broker.names import is_of_the_broker
from broker.records import ExchangeRecord, QueueRecord
from links.federation.upstream import ALL, UPSTREAM, UPSTREAM_SET, Upstream, read_upstream
from links.parameter_checks import DefinitionError

EXCHANGE, QUEUE = "exchange", "queue"
LOOKED_AT_PER_STEP = 100
PURPOSE = "x-internal-purpose"  # an argument of what is there for links


@dataclass(frozen=True, slots=True)
class LinkKey:
    vhost: str
    kind: str
    name: str
    upstream: str
    name_there: str

    @property
    def id(self) -> str:
        text = "\0".join((self.vhost, self.kind, self.name, self.upstream, self.name_there))
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


@dataclass(frozen=True, slots=True)
class WantedLink:
    key: LinkKey
    record: ExchangeRecord | QueueRecord
    policy: str
    upstream: Upstream | None  # None: its parameter is none
    objection: str = ""  # why

    def is_as(self, other: WantedLink) -> bool:
        """Whether a link for one is good for the other: members of a queue may change."""
        ours, theirs = _identity(self.record), _identity(other.record)
        return ours == theirs and (self.key, self.upstream, self.objection) == (
            other.key, other.upstream, other.objection,
        )  # fmt: skip


def _identity(record: ExchangeRecord | QueueRecord) -> object:
    return record.id if isinstance(record, QueueRecord) else record


def federates(catalog: Catalog, vhost: str) -> bool:
    """Whether any policy there does."""
    return any(FEDERATION_KEYS & policy.definition.keys() for policy in catalog.policies(vhost))


def wanted_links(catalog: Catalog) -> Iterator[WantedLink | None]:
    """None where it may be left for a while: there may be very many exchanges and queues."""
    for vhost in [name for name in catalog.vhosts if federates(catalog, name)]:
        if vhost not in catalog.vhosts:
            continue  # it went meanwhile
        records: list[ExchangeRecord | QueueRecord] = [*catalog.exchanges(vhost), *catalog.queues(vhost)]
        yield None
        for count, record in enumerate(records, 1):
            if _is_there(catalog, record):
                yield from wanted_of(catalog, record)
            if count % LOOKED_AT_PER_STEP == 0:
                yield None


def _is_there(catalog: Catalog, record: ExchangeRecord | QueueRecord) -> bool:
    find = catalog.exchange if isinstance(record, ExchangeRecord) else catalog.queue
    return find(record.vhost, record.name) is record


def wanted_of(catalog: Catalog, record: ExchangeRecord | QueueRecord) -> Iterator[WantedLink]:
    if not _may_be_federated(record):
        return
    definition, policy = _policy_of(catalog, record)
    if not FEDERATION_KEYS & definition.keys():
        return
    for name, overrides in _named_upstreams(catalog, record.vhost, definition):
        parameter = catalog.parameter(record.vhost, UPSTREAM, name)
        if parameter is not None:
            yield _wanted(record, policy, name, parameter.value, overrides)


def _may_be_federated(record: ExchangeRecord | QueueRecord) -> bool:
    if PURPOSE in record.arguments:
        return False
    if isinstance(record, ExchangeRecord):
        return not record.internal
    return record.kind != "stream" and not record.exclusive and not is_of_the_broker(record.name)


def _policy_of(catalog: Catalog, record: ExchangeRecord | QueueRecord) -> tuple[Mapping[str, Any], str]:
    if isinstance(record, QueueRecord):
        effective = catalog.effective(record)
        return effective.definition, effective.policy or ""
    policy = catalog.policy_of_exchange(record)
    return ({}, "") if policy is None else (policy.definition, policy.name)


def _named_upstreams(catalog: Catalog, vhost: str, definition: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Names, and what a set says otherwise."""
    if "federation-upstream" in definition:
        return [(definition["federation-upstream"], None)]
    every = [one.name for one in catalog.parameters() if (one.vhost, one.component) == (vhost, UPSTREAM)]
    if "federation-upstream-pattern" in definition:
        return [(name, None) for name in every if matches(definition["federation-upstream-pattern"], name)]
    name = definition["federation-upstream-set"]
    if name == ALL:
        return [(one, None) for one in every]
    found = catalog.parameter(vhost, UPSTREAM_SET, name)
    if found is None:
        return []
    entries = found.value if isinstance(found.value, list) else []
    return [
        (one["upstream"], one) for one in entries if isinstance(one, Mapping) and isinstance(one.get("upstream"), str)
    ]


def _wanted(
    record: ExchangeRecord | QueueRecord, policy: str, name: str, value: Any, overrides: Mapping[str, Any] | None
) -> WantedLink:
    kind = EXCHANGE if isinstance(record, ExchangeRecord) else QUEUE
    try:
        upstream = read_upstream(name, value, overrides)
    except DefinitionError as error:
        key = LinkKey(record.vhost, kind, record.name, name, record.name)
        return WantedLink(key, record, policy, None, f"not a valid upstream: {error}")
    there = (upstream.exchange if kind == EXCHANGE else upstream.queue) or record.name
    return WantedLink(LinkKey(record.vhost, kind, record.name, name, there), record, policy, upstream)
