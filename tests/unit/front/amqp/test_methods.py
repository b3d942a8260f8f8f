"""Each method reaches its session with its arguments, and the table is complete."""

from __future__ import annotations

from typing import Any

import pytest
from pamqp import commands

from front.amqp.methods import HANDLERS
from tests.unit.front.amqp.client import Client, names
from wire.amqp import spec

# What clients may send on a channel beside the methods of the table: the channel itself sees to these.
BY_THE_CHANNEL = {"channel.open", "channel.close", "channel.close-ok", "basic.publish"}
# What only servers send.
ANSWERS = {"basic.return", "basic.deliver", "basic.get-empty"}


def test_every_method_of_a_client_has_its_handler() -> None:
    from_clients = {
        name
        for name in spec.METHODS
        if not name.startswith("connection.") and not name.endswith("-ok") and name not in ANSWERS
    }
    assert set(HANDLERS) == from_clients - BY_THE_CHANNEL


@pytest.mark.parametrize(
    ("method", "call", "answer"),
    [
        (commands.Exchange.Declare(exchange="x", exchange_type="topic"), ("declare_exchange", "x", "topic"),
         "Exchange.DeclareOk"),
        (commands.Exchange.Delete(exchange="x", if_unused=True), ("delete_exchange", "x", True), "Exchange.DeleteOk"),
        (commands.Queue.Declare(queue="q", durable=True), ("declare_queue", "q", True, {}), "Queue.DeclareOk"),
        (commands.Queue.Delete(queue="q", if_empty=True), ("delete_queue", "q", False, True), "Queue.DeleteOk"),
        (commands.Basic.Qos(prefetch_count=9, global_=True), ("set_prefetch", 9, True), "Basic.QosOk"),
        (commands.Basic.Cancel(consumer_tag="t"), ("cancel", "t"), "Basic.CancelOk"),
        (commands.Basic.Recover(requeue=True), ("recover", True), "Basic.RecoverOk"),
        (commands.Confirm.Select(), ("select_confirms",), "Confirm.SelectOk"),
        (commands.Tx.Select(), ("select_transactions",), "Tx.SelectOk"),
        (commands.Tx.Rollback(), ("rollback",), "Tx.RollbackOk"),
    ],
)  # fmt: skip
def test_arguments_arrive_and_the_answer_fits(method: Any, call: tuple[Any, ...], answer: str) -> None:
    client = Client().connect()
    assert names(client.say(1, method)) == [answer]
    assert client.broker.calls == [call]


@pytest.mark.parametrize(
    ("method", "call"),
    [
        (
            commands.Queue.Bind(queue="q", exchange="x", routing_key="k", arguments={"a": 1}),
            ("bind_queue", "q", "x", "k"),
        ),
        (commands.Queue.Unbind(queue="q", exchange="x", routing_key="k"), ("unbind_queue", "q", "x", "k")),
        (commands.Exchange.Bind(destination="d", source="s", routing_key="k"), ("bind_exchange", "d", "s", "k")),
        (commands.Exchange.Unbind(destination="d", source="s", routing_key="k"), ("unbind_exchange", "d", "s", "k")),
    ],
)
def test_bindings_name_both_ends_in_order(method: Any, call: tuple[Any, ...]) -> None:
    client = Client().connect()
    assert names(client.say(1, method)) == [f"{method.name}Ok"]
    assert client.broker.calls[0][: len(call)] == call


@pytest.mark.parametrize(
    ("method", "call"),
    [
        (commands.Basic.Ack(delivery_tag=0, multiple=True), ("acknowledge", 0, 0, True)),
        (commands.Basic.Nack(delivery_tag=0, multiple=True, requeue=False), ("nack", 0, True, False)),
    ],
)
def test_settling_is_not_answered(method: Any, call: tuple[Any, ...]) -> None:
    client = Client().connect()
    assert client.say(1, method) == []
    assert client.broker.calls == [call]
