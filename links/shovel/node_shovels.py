"""The shovels that one node runs: those that are declared and whose owner it is.

Which these are says links/link_claims.py. Looked at once in LOOK_S, and when a parameter, a claim or a node changes. One whose
delete-after is reached has its parameter cleared, if that still says the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from broker.catalog.catalog import Catalog
from broker.catalog.commands.catalog_commands import (
    ClearParameter,
    Command,
    PutNode,
    ReleaseClaim,
    SetParameter,
    TakeClaim,
)
from broker.operations.shovel_facts import COMPONENT, ShovelEnd, ShovelFacts
from broker.pending import Pending
from broker.records import ParameterRecord
from links.link_claims import LinkClaims
from links.parameter_checks import DefinitionError
from links.shovel.definition import ShovelDefinition, read_definition
from links.shovel.doors import Doors, PortMaker
from links.shovel.shovel import Shovel
from links.shovel.shovel_status import ShovelState, ShovelStatus
from links.world import LinkClock, LinkTimer

LOOK_S = 1.0
STATIC = ""  # in place of the vhost of a shovel that the configuration file has
SHOWN_IN = "/"
LOOKED_AT = (SetParameter, ClearParameter, TakeClaim, ReleaseClaim, PutNode)  # what they change may be ours

Key = tuple[str, str]  # vhost or STATIC, name


@dataclass(slots=True)
class _Here:
    """A shovel of this node; None where its parameter is none."""

    record: ParameterRecord
    definition: ShovelDefinition | None
    shovel: Shovel | None
    doors: Doors | None
    objection: str
    since_ms: int
    finished: bool = False


class NodeShovels:
    """See the module. Fulfils NodeShovelsPort. `start` it once the node serves clients, `stop` it before they are sent away."""

    def __init__(
        self,
        node: str,
        catalog: Catalog,
        claims: LinkClaims,
        submit: Callable[[Command], Pending[Any]],
        ports: PortMaker,
        clock: LinkClock,
        fraction: Callable[[], float],
        logger: logging.Logger,
        cluster_name: str,
        static: Mapping[str, Mapping[str, Any]],
    ) -> None:
        """`static`: definitions of the configuration file, by their names."""
        self._node = node
        self._catalog = catalog
        self._claims = claims
        self._submit = submit
        self._ports = ports
        self._clock = clock
        self._fraction = fraction
        self._logger = logger
        self._cluster_name = cluster_name
        self._static = {
            (STATIC, name): ParameterRecord(STATIC, COMPONENT, name, value) for name, value in static.items()
        }
        self._here: dict[Key, _Here] = {}
        self._timer: LinkTimer | None = None
        self._stopped = False

    # ------------------------------------------------------------------------- life

    def start(self) -> None:
        self._look()

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for key in list(self._here):
            self._end(key)
        self._claims.release_all()

    def applied(self, command: Command, result: Any) -> None:
        """A subscriber of the metadata."""
        if isinstance(command, LOOKED_AT) and self._timer is not None and not self._stopped:
            self._look_in(0.0)

    def _look_in(self, delay_s: float) -> None:
        """Once, whatever was to come before: what a look submits may ask for the next one itself."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(delay_s, self._look)

    def _look(self) -> None:
        declared = self._static | {
            (one.vhost, one.name): one for one in self._catalog.parameters() if one.component == COMPONENT and one.vhost
        }
        held = self._claims.look(declared)
        self._compare({key: declared[key] for key in held})
        self._claims.release_ended()
        left_s = self._claims.held_until - self._clock.monotonic()
        self._look_in(min(LOOK_S, left_s) if left_s > 0 else LOOK_S)

    def _compare(self, mine: dict[Key, ParameterRecord]) -> None:
        """What runs here with what should."""
        for key, one in list(self._here.items()):
            if key not in mine or mine[key].value != one.record.value:
                self._end(key)
        for key, record in mine.items():
            if key not in self._here:
                self._begin(key, record)

    def _begin(self, key: Key, record: ParameterRecord) -> None:
        now_ms = self._clock.wall_ms()
        try:
            definition = read_definition(record.name, record.value)
        except DefinitionError as error:
            self._here[key] = _Here(record, None, None, None, f"not a valid shovel: {error}", now_ms)
            self._logger.warning("%s cannot run: %s", _label(record), error)
            return
        doors = Doors(record.name, definition, self._ports, self._clock, self._fraction)
        shovel = Shovel(
            definition,
            doors,
            lambda: self._forward_entry(record, definition, doors),
            self._clock,
            self._fraction,
            on_finished=lambda: self._finished(key),
            on_ended=lambda reason: self._ended(record, reason),
        )
        self._here[key] = _Here(record, definition, shovel, doors, "", now_ms)
        self._logger.info("%s starts on this node", _label(record))
        shovel.start()

    def _end(self, key: Key) -> None:
        one = self._here.pop(key)
        if one.shovel is not None:
            one.shovel.stop()
            self._logger.info("%s ends on this node", _label(one.record))

    def _ended(self, record: ParameterRecord, reason: str) -> None:
        self._logger.warning("%s was interrupted: %s", _label(record), reason)

    def _finished(self, key: Key) -> None:
        one = self._here[key]
        one.finished = True
        self._logger.info("%s has moved all that it was to move", _label(one.record))
        self._clear(key)

    def _clear(self, key: Key) -> None:
        """Try again for as long as it is not done: without a majority it cannot be."""
        one, current = self._here.get(key), self._catalog.parameter(key[0], COMPONENT, key[1])
        if self._stopped or one is None or not one.finished or current is None or current.value != one.record.value:
            return
        clearing = self._submit(ClearParameter(key[0], COMPONENT, key[1]))
        clearing.then(lambda _: None, lambda _: self._clear_later(key))

    def _clear_later(self, key: Key) -> None:
        self._clock.call_later(LOOK_S, lambda: self._clear(key))

    def _forward_entry(self, record: ParameterRecord, definition: ShovelDefinition, doors: Doors) -> dict[str, str]:
        names = {
            "src-queue": definition.source.queue,
            "src-exchange": definition.source.exchange,
            "src-exchange-key": definition.source.exchange_key if definition.source.exchange is not None else None,
            "dest-queue": definition.destination.queue,
            "dest-exchange": definition.destination.exchange,
            "dest-exchange-key": definition.destination.exchange_key,
        }
        return {
            "shovelled-by": self._cluster_name,
            "shovel-type": _type(record.vhost),
            "shovel-name": record.name,
            "shovel-vhost": record.vhost or SHOWN_IN,
            "src-uri": doors.source_uri,
            "dest-uri": doors.destination_uri,
            **{name: value for name, value in names.items() if value is not None},
        }

    # ------------------------------------------------------------------------- NodeShovelsPort

    def facts(self) -> list[ShovelFacts]:
        return [_facts(key, one) for key, one in sorted(self._here.items())]

    def restart(self, vhost: str, name: str) -> bool:
        one = self._here.get((vhost, name)) or (self._here.get((STATIC, name)) if vhost == SHOWN_IN else None)
        if one is None:
            return False
        if one.shovel is not None and not one.finished:
            one.shovel.restart()
        return True


_INVALID = ShovelStatus(ShovelState.TERMINATED, "", 0, None, None, 0, 0, 0, 0, 0, 0)
_NO_END = ShovelEnd("", "", "", None, None)


def _facts(key: Key, one: _Here) -> ShovelFacts:
    status = _INVALID if one.shovel is None else one.shovel.status()
    source = destination = _NO_END
    if one.definition is not None and one.doors is not None:
        src, dest = one.definition.source, one.definition.destination
        key_of_source = None if src.exchange is None else src.exchange_key
        source = ShovelEnd(one.doors.source_uri, src.protocol, src.queue or "", src.exchange, key_of_source)
        destination = ShovelEnd(
            one.doors.destination_uri, dest.protocol, dest.queue or "", dest.exchange, dest.exchange_key
        )
    vhost, name = key
    return ShovelFacts(
        vhost or SHOWN_IN,
        name,
        status.state.value,
        one.objection or status.reason,
        status.since_ms or one.since_ms,
        source,
        destination,
        status.remaining,
        status.remaining_unacked,
        status.pending,
        status.unconfirmed,
        status.forwarded,
        status.returned,
        status.restarts,
        status.stalls,
        _type(vhost),
    )


def _label(record: ParameterRecord) -> str:
    """For the log."""
    return f"shovel '{record.name}' " + (f"in vhost '{record.vhost}'" if record.vhost else "of the configuration file")


def _type(vhost: str) -> str:
    return "dynamic" if vhost else "static"
