"""What an exchange link declares at its upstream, as Steps of a Conversation; with the names that RabbitMQ gives it.

    federated exchange ---- copied bindings ----> QUEUE A or QUEUE B ----> QUEUE: "federation: X -> CLUSTER"
                                                  x-federation-upstream    messages wait here, also while the link is down

Bindings that went while the link was down are not known one by one. So each start fills an internal exchange of its own with
what is bound now, and deletes that of the start before: there is no moment without the bindings, and none is left over. Where
both are there, a start was cut short, and which of them has all bindings is not known: then one of them gets all that it lacks
before the other one begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from broker.exchanges.federation_upstream import DOWNSTREAM_NAME, DOWNSTREAM_VHOST, FEDERATION_KIND, MAX_HOPS
from broker.records import Arguments, ExchangeRecord
from links.amqp.conversation import ChannelRefused, Request, Steps
from links.federation.upstream import Upstream
from links.parameter_checks import NAME_BYTES_MAX, DefinitionError
from wire.amqp.tables import Long

MAIN_CHANNEL, COMMAND_CHANNEL, ASKING_CHANNEL = 1, 2, 3
NOT_FOUND = 404
PRECONDITION_FAILED = 406
PURPOSE = {"x-internal-purpose": "federation"}
SUFFIXES = ("A", "B")
_CLOSING = {"reply_code": 200, "reply_text": "", "class_id": 0, "method_id": 0}
UNANSWERED_MAX = 100  # bindings; of these the last one is answered

# A routing key with its arguments, and whether it is bound or unbound.
BindingChange = tuple[bool, str, Arguments]


@dataclass(frozen=True, slots=True)
class ExchangeLinkTerms:
    """One exchange here, and what it is federated from."""

    upstream: Upstream
    record: ExchangeRecord  # of the exchange here
    cluster: str  # the name of this one
    vhost_there: str

    @property
    def exchange_there(self) -> str:
        return self.upstream.exchange or self.record.name

    @property
    def queue(self) -> str:
        """In which messages wait at the upstream."""
        here, there = self.record, self.exchange_there
        name = f"federation: {there} -> {self.cluster}"
        if here.vhost != self.vhost_there:
            name += f":{here.vhost}:{here.name}"
        elif here.name != there:
            name += f":{here.name}"
        return name

    def internal(self, suffix: str) -> str:
        """The name of an internal exchange at the upstream."""
        return f"{self.queue} {suffix}"

    def check_names(self) -> None:
        """Raises DefinitionError where they would be too long."""
        if len(self.internal(SUFFIXES[0]).encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
            raise DefinitionError(f"'{self.queue}' is too long for the name of a queue at the upstream")

    def label(self, suffix: str) -> str:
        """As whom copied bindings name this exchange: they differ when the internal exchange does."""
        return f"{self.record.vhost}:{self.record.name} {suffix}"


def begin_steps(terms: ExchangeLinkTerms, copies: Callable[[str], Sequence[BindingChange]]) -> Steps:
    """Everything, up to the first message. Ends with the suffix of the internal exchange. `copies`: all bindings of that of a
    suffix; asked when they are to be made."""
    yield MAIN_CHANNEL, "channel.open", {}
    yield COMMAND_CHANNEL, "channel.open", {}
    yield from _queue_there(terms)
    yield from _federated_exchange(terms)
    there = []
    for suffix in SUFFIXES:
        if (yield from is_there(terms.internal(suffix))):
            there.append(suffix)
    other, suffix = ("A", "B") if "A" in there else ("B", "A")
    if suffix in there:
        yield from _fill(terms, other, copies(other))
        yield COMMAND_CHANNEL, "exchange.delete", _deletion(terms, suffix)
    yield from _internal_exchange(terms, suffix)
    yield from _fill(terms, suffix, copies(suffix))
    yield COMMAND_CHANNEL, "exchange.delete", _deletion(terms, other)
    yield from _consume(terms)
    return suffix


def _fill(terms: ExchangeLinkTerms, suffix: str, bindings: Sequence[BindingChange]) -> Steps:
    yield COMMAND_CHANNEL, "queue.bind", {
        "queue": terms.queue, "exchange": terms.internal(suffix), "routing_key": "", "no_wait": False, "arguments": {},
    }  # fmt: skip
    yield from change_steps(terms, suffix, bindings)


def change_steps(terms: ExchangeLinkTerms, suffix: str, changes: Iterable[BindingChange]) -> Steps:
    unanswered = 0
    for is_bound, key, arguments in changes:
        unanswered = (unanswered + 1) % UNANSWERED_MAX
        yield COMMAND_CHANNEL, "exchange.bind" if is_bound else "exchange.unbind", {
            "source": terms.exchange_there, "destination": terms.internal(suffix), "routing_key": key,
            "no_wait": unanswered > 0, "arguments": arguments,
        }  # fmt: skip
    if unanswered:  # known to be done when something behind them is
        yield COMMAND_CHANNEL, "queue.declare", {**_queue(terms), "passive": True}


def _consume(terms: ExchangeLinkTerms) -> Steps:
    no_ack = terms.upstream.ack_mode == "no-ack"
    if not no_ack:
        yield MAIN_CHANNEL, "basic.qos", {
            "prefetch_size": 0, "prefetch_count": terms.upstream.prefetch, "global": False,
        }  # fmt: skip
    yield MAIN_CHANNEL, "basic.consume", {
        "queue": terms.queue, "consumer_tag": "", "no_local": False, "no_ack": no_ack, "exclusive": False,
        "no_wait": False, "arguments": {},
    }  # fmt: skip


def leave_steps(terms: ExchangeLinkTerms, suffix: str) -> Steps:
    """The link is not wanted any more."""
    yield COMMAND_CHANNEL, "queue.delete", {
        "queue": terms.queue, "if_unused": False, "if_empty": False, "no_wait": False,
    }  # fmt: skip
    yield COMMAND_CHANNEL, "exchange.delete", _deletion(terms, suffix)


def is_there(exchange: str) -> Steps:
    """Whether this exchange is. On a channel of its own: the broker closes it where it is not."""
    yield ASKING_CHANNEL, "channel.open", {}
    try:
        yield _declared(ASKING_CHANNEL, exchange, "fanout", passive=True)
    except ChannelRefused as refused:
        if refused.code != NOT_FOUND:
            raise
        return False
    yield ASKING_CHANNEL, "channel.close", _CLOSING
    return True


def _queue_there(terms: ExchangeLinkTerms) -> Steps:
    """One that was declared with other arguments is taken as it is: its messages are not lost because a limit was changed."""
    yield ASKING_CHANNEL, "channel.open", {}
    try:
        yield ASKING_CHANNEL, "queue.declare", _queue(terms)
    except ChannelRefused as refused:
        if refused.code != PRECONDITION_FAILED:
            raise
        yield COMMAND_CHANNEL, "queue.declare", {**_queue(terms), "passive": True}
        return
    yield ASKING_CHANNEL, "channel.close", _CLOSING


def _federated_exchange(terms: ExchangeLinkTerms) -> Steps:
    """As it is there; else as the one here."""
    if not (yield from is_there(terms.exchange_there)):
        here = terms.record
        yield _declared(
            COMMAND_CHANNEL,
            terms.exchange_there,
            here.kind,
            durable=here.durable,
            auto_delete=here.auto_delete,
            arguments=here.arguments,
        )


def _internal_exchange(terms: ExchangeLinkTerms, suffix: str) -> Steps:
    """A broker that does not know the type gets a fanout exchange: what has travelled far enough is dropped here then."""
    name = terms.internal(suffix)
    arguments: dict[str, Any] = {
        MAX_HOPS: Long(terms.upstream.max_hops),
        DOWNSTREAM_NAME: terms.cluster,
        DOWNSTREAM_VHOST: terms.record.vhost,
        **PURPOSE,
    }
    yield ASKING_CHANNEL, "channel.open", {}
    try:
        yield _declared(ASKING_CHANNEL, name, FEDERATION_KIND, arguments, auto_delete=True, internal=True)
    except ChannelRefused as refused:
        if refused.code != PRECONDITION_FAILED:
            raise
        yield _declared(COMMAND_CHANNEL, name, "fanout", PURPOSE, auto_delete=True, internal=True)
        return
    yield ASKING_CHANNEL, "channel.close", _CLOSING


def _declared(
    channel: int,
    exchange: str,
    kind: str,
    arguments: Arguments | None = None,
    *,
    passive: bool = False,
    durable: bool = True,
    auto_delete: bool = False,
    internal: bool = False,
) -> Request:
    return channel, "exchange.declare", {
        "exchange": exchange, "type": kind, "passive": passive, "durable": durable, "auto_delete": auto_delete,
        "internal": internal, "no_wait": False, "arguments": arguments or {},
    }  # fmt: skip


def _queue(terms: ExchangeLinkTerms) -> dict[str, Any]:
    upstream = terms.upstream
    limits = {"x-expires": upstream.expires_ms, "x-message-ttl": upstream.message_ttl_ms}
    arguments = {name: Long(value) for name, value in limits.items() if value is not None}
    return {
        "queue": terms.queue, "passive": False, "durable": True, "exclusive": False, "auto_delete": False,
        "no_wait": False, "arguments": {**arguments, **PURPOSE, "x-queue-type": upstream.queue_type},
    }  # fmt: skip


def _deletion(terms: ExchangeLinkTerms, suffix: str) -> dict[str, Any]:
    return {"exchange": terms.internal(suffix), "if_unused": False, "no_wait": False}
