"""What floods the management side: queues that come and go while pages look on, long definitions wrong at their end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from pamqp import commands

from tests.bench.client import Client
from tests.running_node import RunningNode, running_node
from tests.security.guarded_node import Http

QUEUES = 500
ROUNDS = 2
BYTES_A_QUEUE_MAX = 4_096  # a queue that was forgotten would keep more: 9 KB of rings alone
LOOK_EVERY_S = 0.2
DEFINED = 60_000


@pytest.fixture(scope="module")
def looked_at() -> Iterator[RunningNode]:
    with running_node() as node:
        yield node


@contextmanager
def page_open(node: RunningNode) -> Iterator[list[int]]:
    """What pages ask for, again and again; the statuses that they get."""
    over, statuses = threading.Event(), list[int]()
    paths = ("queues?page=1&page_size=50", "overview", "leveret/events?limit=200", "leveret/audit")

    def look() -> None:
        while not over.wait(LOOK_EVERY_S):
            statuses.extend(Http(node).ask("GET", f"/api/{path}")[0] for path in paths)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield statuses
    finally:
        over.set()
        looking.join()


def churn(node: RunningNode) -> int:
    """Queues that are declared and deleted; the node's memory behind that."""
    client = Client(*node.amqp)
    for number in range(QUEUES):
        client.send_method(1, commands.Queue.Declare(queue=f"churn-{number}", nowait=True))
        client.send_method(1, commands.Queue.Delete(queue=f"churn-{number}", nowait=True))
    client.declare_queue("churn-end")
    client.abort()
    return node.resident_bytes()


def test_queues_that_come_and_go_leave_nothing_behind_in_samples_events_and_pages(looked_at: RunningNode) -> None:
    """The least growth of several rounds counts: memory grows for a while by what is kept on purpose, and is bounded."""
    with page_open(looked_at) as statuses:
        sizes = [churn(looked_at) for _ in range(1 + ROUNDS)]
    assert set(statuses) == {200}
    grown = min(later - earlier for earlier, later in pairwise(sizes))
    assert grown < BYTES_A_QUEUE_MAX * QUEUES, f"{grown} bytes more after another {QUEUES} queues"


def test_large_definitions_of_which_the_last_entry_is_wrong_change_nothing(looked_at: RunningNode) -> None:
    queues = [{"vhost": "/", "name": f"defined-{number:06}", "durable": True} for number in range(DEFINED)]
    queues.append({"vhost": "nowhere", "name": "last"})
    before = Http(looked_at).get("/api/definitions")
    status, said = Http(looked_at).ask(
        "POST", "/api/definitions", {"users": [{"name": "late", "password": "p"}], "queues": queues}
    )
    assert (status, "nowhere" in said) == (400, True), said[:500]
    after = Http(looked_at).get("/api/definitions")
    assert (after["queues"], after["users"]) == (before["queues"], before["users"])
