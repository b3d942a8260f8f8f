"""A queue link: takes messages from a queue of the upstream while this one is empty and consumers here wait.

It consumes with priority -1, so that what the upstream's own consumers have room for goes to them, and a link does not wait
on behalf of another one: only consumers with a priority of 0 or more count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from broker.records import QueueRecord
from links.amqp.conversation import ChannelRefused, Steps
from links.amqp.events import Delivered
from links.federation.federation_link import FederationLink, LinkEnds, UpstreamEnd
from links.federation.hops import QueueStamp
from links.federation.upstream import Upstream
from links.world import LinkClock, LinkTimer

LOOK_S = 0.05  # whether consumers wait
MAIN_CHANNEL, ASKING_CHANNEL = 1, 2
NOT_FOUND = 404
PRIORITY = -1


@dataclass(frozen=True, slots=True)
class QueueLinkTerms:
    """One queue here, and what it is federated from."""

    upstream: Upstream
    record: QueueRecord  # of the queue here

    @property
    def queue_there(self) -> str:
        return self.upstream.queue or self.record.name


class QueueLink(FederationLink):
    """See the module. `is_wanting`: consumers here wait and there is nothing for them."""

    def __init__(
        self,
        terms: QueueLinkTerms,
        is_wanting: Callable[[], bool],
        ends: LinkEnds,
        clock: LinkClock,
        fraction: Callable[[], float],
        on_error: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._terms = terms
        self._is_wanting = is_wanting
        self._queue = terms.record.name.encode()
        self._consumes = False
        self._look_timer: LinkTimer | None = None
        super().__init__(terms.upstream, ends, clock, fraction, on_error)

    # ------------------------------------------------------------------------- FederationLink

    def begin_steps(self) -> Steps:
        return queue_steps(self._terms)

    def new_stamp(self, end: UpstreamEnd) -> QueueStamp:
        entry = {"uri": end.uri, "queue": self._terms.record.name}
        return QueueStamp(entry, trusts_user_id=self.upstream.trust_user_id)

    def target_of(self, run: Delivered) -> tuple[bytes, bytes]:
        return b"", self._queue

    def begun(self, result: Any) -> None:
        self._look()

    def closed(self) -> None:
        self._consumes = False
        if self._look_timer is not None:
            self._look_timer.cancel()
            self._look_timer = None

    # ------------------------------------------------------------------------- when it consumes

    def _look(self) -> None:
        self._look_timer = self.clock.call_later(LOOK_S, self._look)
        wanting = self._is_wanting()
        if wanting != self._consumes and not self.is_asking:
            self._consumes = wanting
            self.ask(consume_steps(self._terms) if wanting else cancel_steps(self._terms))


def queue_steps(terms: QueueLinkTerms) -> Steps:
    """A queue that is there is taken as it is; else it is declared as the one here."""
    yield MAIN_CHANNEL, "channel.open", {}
    yield ASKING_CHANNEL, "channel.open", {}
    try:
        yield ASKING_CHANNEL, "queue.declare", _declared(terms, passive=True)
    except ChannelRefused as refused:
        if refused.code != NOT_FOUND:
            raise
        yield MAIN_CHANNEL, "queue.declare", _declared(terms, passive=False)
    if terms.upstream.ack_mode != "no-ack":
        yield MAIN_CHANNEL, "basic.qos", {
            "prefetch_size": 0, "prefetch_count": terms.upstream.prefetch, "global": False,
        }  # fmt: skip


def consume_steps(terms: QueueLinkTerms) -> Steps:
    yield MAIN_CHANNEL, "basic.consume", {
        "queue": terms.queue_there, "consumer_tag": terms.upstream.consumer_tag, "no_local": False,
        "no_ack": terms.upstream.ack_mode == "no-ack", "exclusive": False, "no_wait": False,
        "arguments": {"x-priority": PRIORITY},
    }  # fmt: skip


def cancel_steps(terms: QueueLinkTerms) -> Steps:
    yield MAIN_CHANNEL, "basic.cancel", {"consumer_tag": terms.upstream.consumer_tag, "no_wait": False}


def _declared(terms: QueueLinkTerms, *, passive: bool) -> dict[str, Any]:
    here = terms.record
    return {
        "queue": terms.queue_there, "passive": passive, "durable": here.durable, "exclusive": False,
        "auto_delete": here.auto_delete, "no_wait": False, "arguments": here.arguments,
    }  # fmt: skip
