"""What each method of a client's channel asks of its session: one flat table, one small function each.

A function takes the arguments apart, calls the session, and says what goes back. Errors travel up as they are raised: the
channel turns them into replies. `no_wait` keeps back the answer, never an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from broker.errors import NotSupported
from broker.pending import Pending
from wire.amqp.spec import Arguments, encode

if TYPE_CHECKING:
    from broker.session.session import GotMessage, Session

T = TypeVar("T")


class MethodChannel(Protocol):
    """What a method needs of its channel."""

    session: Session

    def send(self, payload: bytes) -> None: ...

    def answer(self, pending: Pending[T], reply: Callable[[T], bytes | None]) -> None: ...

    def send_got(self, got: GotMessage) -> None: ...


Handler = Callable[[MethodChannel, Arguments, int], None]


def _done(name: str, arguments: Arguments) -> Callable[[Any], bytes | None]:
    """A reply without arguments of its own; none at all when the client does not wait for it."""
    payload = None if arguments.get("no_wait") else encode(name)
    return lambda _: payload


# ----------------------------------------------------------------------------- channel, access


def _channel_flow(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    if not arguments["active"]:
        raise NotSupported("active=false")
    channel.send(encode("channel.flow-ok", active=True))


def _access_request(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    channel.send(encode("access.request-ok", ticket=1))  # realms left the protocol before 0-9-1; some clients still ask


# ----------------------------------------------------------------------------- exchanges


def _exchange_declare(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    pending = channel.session.topology.declare_exchange(
        arguments["exchange"],
        arguments["type"],
        passive=arguments["passive"],
        durable=arguments["durable"],
        auto_delete=arguments["auto_delete"],
        internal=arguments["internal"],
        arguments=arguments["arguments"],
        now=now,
    )
    channel.answer(pending, _done("exchange.declare-ok", arguments))


def _exchange_delete(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    pending = channel.session.topology.delete_exchange(arguments["exchange"], if_unused=arguments["if_unused"], now=now)
    channel.answer(pending, _done("exchange.delete-ok", arguments))


def _exchange_bind(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    pending = channel.session.topology.bind_exchange(
        arguments["destination"], arguments["source"], arguments["routing_key"], arguments["arguments"], now
    )
    channel.answer(pending, _done("exchange.bind-ok", arguments))


def _exchange_unbind(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    pending = channel.session.topology.unbind_exchange(
        arguments["destination"], arguments["source"], arguments["routing_key"], arguments["arguments"], now
    )
    channel.answer(pending, _done("exchange.unbind-ok", arguments))


# ----------------------------------------------------------------------------- queues


def _queue_declare(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    pending = channel.session.topology.declare_queue(
        arguments["queue"],
        passive=arguments["passive"],
        durable=arguments["durable"],
        exclusive=arguments["exclusive"],
        auto_delete=arguments["auto_delete"],
        arguments=arguments["arguments"],
        now=now,
    )
    no_wait = arguments["no_wait"]
    channel.answer(
        pending,
        lambda declared: (
            None
            if no_wait
            else encode(
                "queue.declare-ok",
                queue=declared.name,
                message_count=declared.ready,
                consumer_count=declared.consumers,
            )
        ),
    )


def _queue_bind(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    pending = channel.session.topology.bind_queue(
        arguments["queue"], arguments["exchange"], arguments["routing_key"], arguments["arguments"], now
    )
    channel.answer(pending, _done("queue.bind-ok", arguments))


def _queue_unbind(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    pending = channel.session.topology.unbind_queue(
        arguments["queue"], arguments["exchange"], arguments["routing_key"], arguments["arguments"], now
    )
    channel.answer(pending, _done("queue.unbind-ok", arguments))


def _queue_purge(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    no_wait = arguments["no_wait"]
    channel.answer(
        channel.session.topology.purge_queue(arguments["queue"], now),
        lambda count: None if no_wait else encode("queue.purge-ok", message_count=count),
    )


def _queue_delete(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    no_wait = arguments["no_wait"]
    pending = channel.session.topology.delete_queue(
        arguments["queue"], if_unused=arguments["if_unused"], if_empty=arguments["if_empty"], now=now
    )
    channel.answer(pending, lambda count: None if no_wait else encode("queue.delete-ok", message_count=count))


# ----------------------------------------------------------------------------- consuming


def _basic_qos(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    if arguments["prefetch_size"]:
        raise NotSupported(f"prefetch_size!=0 ({arguments['prefetch_size']})")
    channel.session.set_prefetch(arguments["prefetch_count"], arguments["global"])
    channel.send(encode("basic.qos-ok"))


def _basic_consume(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    pending = channel.session.consume(
        arguments["queue"],
        arguments["consumer_tag"],
        no_ack=arguments["no_ack"],
        exclusive=arguments["exclusive"],
        no_local=arguments["no_local"],
        arguments=arguments["arguments"],
        now=now,
    )
    no_wait = arguments["no_wait"]
    channel.answer(pending, lambda tag: None if no_wait else encode("basic.consume-ok", consumer_tag=tag))


def _basic_cancel(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    def reply(_: None) -> bytes | None:
        return None if arguments["no_wait"] else encode("basic.cancel-ok", consumer_tag=arguments["consumer_tag"])

    channel.answer(channel.session.cancel(arguments["consumer_tag"], now), reply)


def _basic_get(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    def reply(got: Any) -> bytes | None:
        if got is None:
            return encode("basic.get-empty")
        channel.send_got(got)
        return None

    channel.answer(channel.session.get(arguments["queue"], arguments["no_ack"], now), reply)


def _basic_ack(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    tag = arguments["delivery_tag"]
    channel.session.acknowledge(tag, tag, arguments["multiple"], now)


def _basic_reject(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    channel.session.reject(arguments["delivery_tag"], arguments["requeue"], now)


def _basic_nack(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    channel.session.nack(arguments["delivery_tag"], arguments["multiple"], arguments["requeue"], now)


def _basic_recover_async(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    if not arguments["requeue"]:
        raise NotSupported("requeue=false")
    channel.session.recover(True, now)


def _basic_recover(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    _basic_recover_async(channel, arguments, now)
    channel.send(encode("basic.recover-ok"))


# ----------------------------------------------------------------------------- confirms, transactions


def _confirm_select(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    channel.session.publisher.select_confirms()
    if not arguments["no_wait"]:
        channel.send(encode("confirm.select-ok"))


def _tx_select(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    channel.session.select_transactions()
    channel.send(encode("tx.select-ok"))


def _tx_commit(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    channel.answer(channel.session.commit(now), _done("tx.commit-ok", arguments))


def _tx_rollback(channel: MethodChannel, arguments: Arguments, now: int) -> None:
    channel.session.rollback(now)
    channel.send(encode("tx.rollback-ok"))


# channel.open, channel.close and basic.publish change the channel itself, which sees to them.
HANDLERS: dict[str, Handler] = {
    "channel.flow": _channel_flow,
    "access.request": _access_request,
    "exchange.declare": _exchange_declare,
    "exchange.delete": _exchange_delete,
    "exchange.bind": _exchange_bind,
    "exchange.unbind": _exchange_unbind,
    "queue.declare": _queue_declare,
    "queue.bind": _queue_bind,
    "queue.unbind": _queue_unbind,
    "queue.purge": _queue_purge,
    "queue.delete": _queue_delete,
    "basic.qos": _basic_qos,
    "basic.consume": _basic_consume,
    "basic.cancel": _basic_cancel,
    "basic.get": _basic_get,
    "basic.ack": _basic_ack,
    "basic.reject": _basic_reject,
    "basic.nack": _basic_nack,
    "basic.recover-async": _basic_recover_async,
    "basic.recover": _basic_recover,
    "confirm.select": _confirm_select,
    "tx.select": _tx_select,
    "tx.commit": _tx_commit,
    "tx.rollback": _tx_rollback,
}
