"""The queues of the workload: what they are declared with, what they promise, and what clients do with their messages."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from pamqp import commands

from tests.chaos.amqp import Client
from tests.histories.rules import QueueRules, Rules

FAN = "events"
QUORUM = {"x-queue-type": "quorum"}
AT_LEAST_ONCE = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
DELIVERY_LIMIT = 3
TIME_TO_LIVE_S = 1.5
NEWS_S = (
    60.0  # a node that is cut off hears no sooner than by heartbeats that a client of its is gone, nor do others by it
)


@dataclass(frozen=True, slots=True)
class Habits:
    """What a consumer does with what it gets, in shares of one. The rest is acknowledged."""

    consumers: int = 0
    prefetch: int = 10
    requeues: float = 0.0  # basic.nack: no failure
    fails: float = 0.0  # basic.reject, to be requeued
    rejects: float = 0.0


@dataclass(frozen=True, slots=True)
class Queue:
    rules: QueueRules
    arguments: dict[str, Any] = field(default_factory=dict)
    habits: Habits = field(default_factory=Habits)

    @property
    def name(self) -> str:
        return self.rules.name

    @property
    def is_quorum(self) -> bool:
        return self.arguments.get("x-queue-type") == "quorum"

    @property
    def answers_gets(self) -> bool:
        return "x-single-active-consumer" not in self.arguments


@dataclass(frozen=True, slots=True)
class Route:
    """Where a publisher publishes to. `name` is in the rules of the queues that this feeds."""

    name: str
    exchange: str
    key: str
    priorities: int = 1


def _dead_letters_to(target: str) -> dict[str, Any]:
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target}


QUEUES = (
    Queue(
        QueueRules(
            "orders", frozenset({"seller"}), dead_letters_to="orders.dead", at_least_once=True,
            delivery_limit=DELIVERY_LIMIT,
        ),
        QUORUM | AT_LEAST_ONCE | _dead_letters_to("orders.dead") | {"x-delivery-limit": DELIVERY_LIMIT},
        Habits(consumers=3, requeues=0.06, fails=0.06, rejects=0.04),
    ),
    Queue(QueueRules("orders.dead", may_hold_twice=True), QUORUM),
    Queue(
        QueueRules("tasks", frozenset({"planner"}), dead_letters_to="tasks.dead"),
        QUORUM | _dead_letters_to("tasks.dead") | {"x-single-active-consumer": True},
        Habits(consumers=2, prefetch=5, rejects=0.05),
    ),
    Queue(QueueRules("tasks.dead"), QUORUM),
    Queue(
        QueueRules("short", frozenset({"ticker"}), dead_letters_to="short.dead", at_least_once=True, expires_s=TIME_TO_LIVE_S),
        QUORUM | AT_LEAST_ONCE | _dead_letters_to("short.dead") | {"x-message-ttl": int(TIME_TO_LIVE_S * 1000)},
    ),
    Queue(QueueRules("short.dead", may_hold_twice=True), QUORUM, Habits(consumers=1, prefetch=20)),
    Queue(QueueRules("urgent", frozenset({"caller", "teller"})), QUORUM, Habits(consumers=2, requeues=0.1)),
    Queue(QueueRules("notes", frozenset({"writer", "teller"})), {}, Habits(consumers=1, requeues=0.05)),
)  # fmt: skip
ROUTES = (
    Route("seller", "", "orders"),
    Route("planner", "", "tasks"),
    Route("ticker", "", "short"),
    Route("caller", "", "urgent", priorities=3),
    Route("teller", FAN, ""),  # to urgent and notes: a quorum queue and a classic one
    Route("writer", "", "notes"),
)


def rules(*, classic_is_kept: bool = True) -> Rules:
    """`classic_is_kept`: no scenario takes the disk of a classic queue's node away for good."""
    return Rules(
        tuple(
            queue.rules if queue.is_quorum else replace(queue.rules, keeps_confirmed=classic_is_kept)
            for queue in QUEUES
        ),
        news_s=NEWS_S,
    )


async def declare(client: Client) -> None:
    """All of it, on the node that this client is connected to: so that is where the classic queue lives."""
    await client.call(
        commands.Exchange.Declare(exchange=FAN, exchange_type="fanout", durable=True), "Exchange.DeclareOk"
    )
    for queue in QUEUES:
        await client.call(
            commands.Queue.Declare(queue=queue.name, durable=True, arguments=queue.arguments), "Queue.DeclareOk"
        )
        if "teller" in queue.rules.fed_by:
            await client.call(commands.Queue.Bind(queue=queue.name, exchange=FAN, routing_key=""), "Queue.BindOk")
