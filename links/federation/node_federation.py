"""The federation links that one node runs: those that policies ask for and that are its own.

An exchange link runs on the node that holds a claim on it (links/link_claims.py), a queue link where its queue's consumers are
known, at its home or leader. Which links there should be is read from the catalog LOOK_S after something was declared, so that
what comes and goes at once opens no connection. What runs is compared with that at least once a second, for claims lapse and
leaders move. Bindings follow BINDINGS_S after they have changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from broker.catalog.commands import catalog_commands as commands
from broker.operations.federation_facts import FederationLinkFacts
from broker.records import ExchangeRecord, QueueRecord
from links.federation.copied_bindings import CopiedBindings
from links.federation.exchange_link import ExchangeLink
from links.federation.federation_link import FederationLink
from links.federation.federation_status import LinkState, LinkStatus
from links.federation.queue_link import QueueLink
from links.federation.wanted_links import EXCHANGE, LinkKey, WantedLink, wanted_links
from links.link_claims import LinkClaims
from links.link_claims import LinkKey as ClaimKey
from links.parameter_checks import DefinitionError
from links.world import LinkClock, LinkTimer

if TYPE_CHECKING:
    from broker.broker import Broker

CLAIMED_AS = "federation"
LOOK_S = 1.0
BEGUN_AT_ONCE = 20  # links: each takes a third of a millisecond, and a policy may federate thousands of queues
ENDED_AT_ONCE = 50  # links: each takes a sixth of a millisecond
NEXT_S = 0.01  # until more begin or end
BINDINGS_S = 0.1
BINDINGS_PER_S = 200_000  # compared at most: an exchange with very many is looked at less often

_OF_BINDINGS = (commands.Bind, commands.Unbind)
_OF_CLAIMS = (commands.TakeClaim, commands.ReleaseClaim, commands.RenewClaims)
_AT_ONCE = (
    commands.SetParameter, commands.ClearParameter, commands.PutPolicy, commands.DeletePolicy,
    commands.TakeClaim, commands.ReleaseClaim,
)  # fmt: skip


class LinkMaker(Protocol):
    """Makes links with both their ends. Raises DefinitionError for one that cannot be."""

    def exchange_link(
        self, wanted: WantedLink, bindings: CopiedBindings, on_error: Callable[[str], None]
    ) -> ExchangeLink: ...

    def queue_link(
        self, wanted: WantedLink, is_wanting: Callable[[], bool], on_error: Callable[[str], None]
    ) -> QueueLink: ...


@dataclass(slots=True)
class _Running:
    """A link of this node; None where it cannot be."""

    wanted: WantedLink
    link: FederationLink | None
    bindings: CopiedBindings | None
    objection: str
    since_ms: int
    is_begun: bool = False


class NodeFederation:
    """See the module. Fulfils NodeFederationPort. `start` it once the node serves clients, `stop` it before they are sent
    away."""

    def __init__(
        self,
        broker: Broker,
        claims: LinkClaims,
        candidates: Callable[[], Collection[str]],
        maker: LinkMaker,
        clock: LinkClock,
        logger: logging.Logger,
    ) -> None:
        """`candidates`: the nodes that may run links, as this one sees it; none while it has no majority."""
        self._broker = broker
        self._catalog = broker.catalog
        self._claims = claims
        self._candidates = candidates
        self._maker = maker
        self._clock = clock
        self._logger = logger
        self._wanted: dict[LinkKey, WantedLink] | None = None  # on whichever node; None: not read yet
        self._running: dict[LinkKey, _Running] = {}
        self._timer: LinkTimer | None = None
        self._bindings_timer: LinkTimer | None = None
        self._stopped = False
        self._is_declared = True  # something, since links were read from the catalog
        self._is_reading = False
        self._is_following = False

    # ------------------------------------------------------------------------- life

    def start(self) -> None:
        self._look()

    def stop(self) -> None:
        self._stopped = True
        for timer in (self._timer, self._bindings_timer):
            if timer is not None:
                timer.cancel()
        for key in list(self._running):
            self._end(key, is_wanted=True)
        self._claims.release_all()

    def applied(self, command: commands.Command, result: Any) -> None:
        """A subscriber of the metadata."""
        if self._timer is None or self._stopped:
            return
        if isinstance(command, _AT_ONCE):
            self._look_in(0.0)
        if isinstance(command, _OF_CLAIMS):
            return
        if not isinstance(command, _OF_BINDINGS):
            self._is_declared = True
        self._follow_later()

    def _look_in(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(delay_s, self._look)

    def _look(self) -> None:
        if self._is_declared and not self._is_reading:
            self._is_declared, self._is_reading = False, True
            self._broker.work.do(self._read_wanted())
        if self._compare():
            self._look_in(NEXT_S)
            return
        left_s = self._claims.held_until - self._clock.monotonic()
        self._look_in(min(LOOK_S, left_s) if left_s > 0 else LOOK_S)

    def _read_wanted(self) -> Iterator[None]:
        every: dict[LinkKey, WantedLink] = {}
        for wanted in wanted_links(self._catalog):
            if wanted is None:
                yield
            else:
                every[wanted.key] = wanted
        self._wanted, self._is_reading = every, False
        if self._compare():
            self._look_in(NEXT_S)

    def _compare(self) -> bool:
        """What runs here with what should. Whether to do so again soon: more are to begin or to end."""
        every = self._wanted
        if every is None or self._stopped:
            return False
        # A claim on a link that nobody wants any more is kept until it has ended here.
        held = self._claims.look(_claim_key(key) for key in every.keys() | self._running if key.kind == EXCHANGE)
        is_candidate = self._broker.node in self._candidates()
        is_ending = self._end_some(every, held, is_candidate)
        self._claims.release_ended()
        mine = [key for key in every if self._is_mine(key, held, is_candidate)]
        waiting = [key for key in mine if key not in self._running]
        for key in waiting[:BEGUN_AT_ONCE]:
            self._begin(key, every[key])
        return is_ending or len(waiting) > BEGUN_AT_ONCE

    def _end_some(self, every: Mapping[LinkKey, WantedLink], held: Collection[ClaimKey], is_candidate: bool) -> bool:
        """Links that another node may run end at once; those that nobody wants any more, or not as they are, some at a time.
        Whether there were any of these."""
        ending: list[LinkKey] = []
        for key, one in list(self._running.items()):
            if not self._is_mine(key, held, is_candidate):
                self._end(key, is_wanted=key in every)
            elif key not in every or not every[key].is_as(one.wanted):
                ending.append(key)
        for key in ending[:ENDED_AT_ONCE]:
            self._end(key, is_wanted=key in every)
        return bool(ending)

    def _is_mine(self, key: LinkKey, held: Collection[ClaimKey], is_candidate: bool) -> bool:
        if key.kind == EXCHANGE:
            return _claim_key(key) in held
        found = self._broker.find_queue(key.vhost, key.name)
        return is_candidate and found is not None and found.queue.accounted_here

    def _begin(self, key: LinkKey, wanted: WantedLink) -> None:
        link: FederationLink | None = None
        bindings: CopiedBindings | None = None
        objection = wanted.objection
        if wanted.upstream is not None:
            try:
                if isinstance(wanted.record, ExchangeRecord):
                    bindings = CopiedBindings()
                    link = self._maker.exchange_link(wanted, bindings, lambda reason: self._interrupted(key, reason))
                else:
                    is_wanting = self._is_wanting(wanted.record)
                    link = self._maker.queue_link(wanted, is_wanting, lambda reason: self._interrupted(key, reason))
            except DefinitionError as error:
                objection = str(error)
        self._running[key] = one = _Running(wanted, link, bindings, objection, self._clock.wall_ms())
        one.is_begun = bindings is None
        if link is None:
            self._logger.warning("%s cannot run: %s", _label(key), objection)
            return
        self._logger.info("%s starts on this node", _label(key))
        if bindings is None:
            link.start()
        else:
            self._broker.work.do(self._begin_with_bindings(key, one))

    def _begin_with_bindings(self, key: LinkKey, one: _Running) -> Iterator[None]:
        yield from self._compare_bindings(key, one)
        if self._running.get(key) is one and one.link is not None:
            one.is_begun = True
            one.link.start()
            self._follow_later()

    def _is_wanting(self, record: QueueRecord) -> Callable[[], bool]:
        def is_wanting() -> bool:
            found = self._broker.find_queue(record.vhost, record.name)
            return found is not None and found.queue.is_starving

        return is_wanting

    def _end(self, key: LinkKey, *, is_wanted: bool) -> None:
        """`is_wanted`: not by this node in this form, but perhaps by another or in another."""
        one = self._running.pop(key)
        if one.link is None:
            return
        self._logger.info("%s ends on this node", _label(key))
        if is_wanted:
            one.link.stop()
        else:
            one.link.leave()

    def _interrupted(self, key: LinkKey, reason: str) -> None:
        self._logger.warning("%s was interrupted: %s", _label(key), reason)

    # ------------------------------------------------------------------------- bindings

    def _follow_later(self) -> None:
        """If there are any links of exchanges."""
        known = [len(one.bindings) for one in self._running.values() if one.bindings is not None]
        if known and self._bindings_timer is None and not self._stopped:
            delay_s = BINDINGS_S + sum(known) / BINDINGS_PER_S
            self._bindings_timer = self._clock.call_later(delay_s, self._follow_bindings)

    def _follow_bindings(self) -> None:
        self._bindings_timer = None
        if self._is_following:
            self._follow_later()
        else:
            self._is_following = True
            self._broker.work.do(self._compare_all_bindings())

    def _compare_all_bindings(self) -> Iterator[None]:
        for key, one in list(self._running.items()):
            if one.is_begun and isinstance(one.link, ExchangeLink):
                yield from self._compare_bindings(key, one)
                one.link.bindings_changed()
        self._is_following = False

    def _compare_bindings(self, key: LinkKey, one: _Running) -> Iterator[None]:
        if one.bindings is None or key.vhost not in self._catalog.vhosts:
            return
        exchange = self._catalog.namespace(key.vhost).exchanges.get(key.name)
        if exchange is not None:
            yield from one.bindings.compare(exchange.outgoing)

    # ------------------------------------------------------------------------- NodeFederationPort

    def facts(self) -> list[FederationLinkFacts]:
        return [_facts(one) for _, one in sorted(self._running.items(), key=lambda item: _order(item[0]))]

    def restart(self, vhost: str, link_id: str) -> bool:
        for key, one in self._running.items():
            if (key.vhost, key.id) == (vhost, link_id):
                if one.link is not None:
                    one.link.restart()
                return True
        return False


def _claim_key(key: LinkKey) -> ClaimKey:
    """Two links with the same number run on the same node: they share a claim."""
    return key.vhost, key.id


def _order(key: LinkKey) -> tuple[str, ...]:
    return key.vhost, key.kind, key.name, key.upstream, key.name_there


def _label(key: LinkKey) -> str:
    return f"federation link of {key.kind} '{key.name}' in vhost '{key.vhost}' to upstream '{key.upstream}'"


def _facts(one: _Running) -> FederationLinkFacts:
    key, upstream = one.wanted.key, one.wanted.upstream
    if one.link is None:
        status = LinkStatus(LinkState.ERROR, one.objection, one.since_ms, "", "", 0, 0, 0, 0, 0)
    else:
        status = one.link.status()
    return FederationLinkFacts(
        key.vhost,
        key.kind,
        key.name,
        key.upstream,
        key.name_there,
        "" if upstream is None or key.kind == EXCHANGE else upstream.consumer_tag,
        key.id,
        status.uri,
        status.state.value,
        status.error,
        status.since_ms,
        status.local_connection,
        status.passed_on,
        status.dropped,
        status.refused,
        status.unconfirmed,
        status.restarts,
    )
