"""An exchange link: bindings of the exchange here go up, and what they match there comes down."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from broker.records import Arguments
from links.amqp.conversation import Steps
from links.amqp.events import Delivered
from links.federation.copied_bindings import CopiedBindings
from links.federation.exchange_setup import (
    BindingChange,
    ExchangeLinkTerms,
    begin_steps,
    change_steps,
    is_there,
    leave_steps,
)
from links.federation.federation_link import FederationLink, LinkEnds, UpstreamEnd
from links.federation.hops import ExchangeStamp, copied_arguments
from links.world import LinkClock, LinkTimer

CHECK_S = 90.0  # whether the internal exchange is still there


class ExchangeLink(FederationLink):
    """See the module. `bindings` are followed by whoever made the link; `bindings_changed` tells it."""

    def __init__(
        self,
        terms: ExchangeLinkTerms,
        bindings: CopiedBindings,
        ends: LinkEnds,
        clock: LinkClock,
        fraction: Callable[[], float],
        on_error: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._terms = terms
        self._bindings = bindings
        self._exchange = terms.record.name.encode()
        self._suffix = ""  # of the internal exchange; empty: there is none yet
        self._check: LinkTimer | None = None
        super().__init__(terms.upstream, ends, clock, fraction, on_error)

    def bindings_changed(self) -> None:
        if self._suffix and not self.is_asking and self._bindings.changes:
            self.ask(change_steps(self._terms, self._suffix, self._copied(self._suffix, self._bindings.take_changes())))

    # ------------------------------------------------------------------------- FederationLink

    def begin_steps(self) -> Steps:
        return begin_steps(self._terms, self._all_copied)

    def leave_steps(self) -> Steps | None:
        return leave_steps(self._terms, self._suffix)

    def new_stamp(self, end: UpstreamEnd) -> ExchangeStamp:
        terms = self._terms
        entry = {"uri": end.uri, "exchange": terms.record.name, "redelivered": False}
        if end.cluster is not None:
            entry["cluster-name"] = end.cluster
        return ExchangeStamp(
            {**entry, "vhost": terms.vhost_there},
            terms.upstream.max_hops,
            (terms.cluster, terms.record.vhost),
            trusts_user_id=terms.upstream.trust_user_id,
        )

    def target_of(self, run: Delivered) -> tuple[bytes, bytes]:
        return self._exchange, run.routing_key

    def begun(self, result: Any) -> None:
        self._suffix = result
        self._check = self.clock.call_later(CHECK_S, self._look)
        self.bindings_changed()

    def answered(self, result: Any) -> None:
        if result is False:
            self.fail(f"exchange '{self._terms.internal(self._suffix)}' of the upstream was deleted")
        else:
            self.bindings_changed()

    def closed(self) -> None:
        self._suffix = ""
        if self._check is not None:
            self._check.cancel()
            self._check = None

    # ------------------------------------------------------------------------- bindings

    def _all_copied(self, suffix: str) -> list[BindingChange]:
        return list(self._copied(suffix, [(True, *one) for one in self._bindings.all()]))

    def _copied(self, suffix: str, changes: Iterable[BindingChange]) -> Iterable[BindingChange]:
        terms, end = self._terms, self.end_there
        entry = {
            "cluster-name": terms.cluster,
            "vhost": terms.record.vhost,
            "exchange": terms.label(suffix),
        }
        there = ("" if end is None or end.cluster is None else end.cluster, terms.vhost_there)
        for is_bound, key, arguments in changes:
            copied: Arguments | None = copied_arguments(arguments, entry, terms.upstream.max_hops, there)
            if copied is not None:
                yield is_bound, key, copied

    def _look(self) -> None:
        self._check = self.clock.call_later(CHECK_S, self._look)
        if not self.is_asking:
            self.ask(is_there(self._terms.internal(self._suffix)))
