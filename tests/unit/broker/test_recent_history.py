"""x-recent-history: who is bound later gets the last messages, once."""

from __future__ import annotations

import sys

import pytest

from broker.errors import PreconditionFailed
from broker.exchanges import recent_history
from broker.exchanges.exchange import HISTORY_LENGTH_MAX
from broker.exchanges.recent_history import HISTORY_BYTES_MAX, RUN_BYTES, RecentHistory
from broker.messages.message import LOOK_HEADERS, Run
from native.content import encode, messages
from tests.unit.broker.broker_world import Client, World
from wire.amqp.tables import encode_properties


@pytest.fixture
def client() -> Client:
    return World().client()


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def bind(client: Client, queue: str) -> list[bytes]:
    """A new queue; what it has at once."""
    client.declare(queue)
    client.bind(queue, "x", "any")
    client.world.end_turn()
    return client.bodies_of(queue)


def test_a_queue_that_is_bound_gets_the_last_twenty_messages_in_their_order(client: Client) -> None:
    client.declare_exchange("x", "x-recent-history")
    client.publish("x", "k", *numbered(7))
    client.publish("x", "other", *numbered(18, 7))
    assert bind(client, "q") == numbered(20, 5)
    client.publish("x", "k", b"new")
    assert client.bodies_of("q") == [b"new"], "from then on it gets what is published, as of a fanout"


def test_the_length_is_an_argument_and_a_binding_made_again_replays_nothing(client: Client) -> None:
    client.declare_exchange("x", "x-recent-history", arguments={"x-recent-history-length": 3})
    client.publish("x", "k", *numbered(5))
    assert bind(client, "q") == numbered(3, 2)
    assert bind(client, "q") == []
    assert bind(client, "r") == numbered(3, 2)


def test_of_messages_that_travel_together_only_what_says_so_is_not_remembered(client: Client) -> None:
    client.declare_exchange("x", "x-recent-history")
    bind(client, "q")
    kept, passing = encode_properties({}), encode_properties({"headers": {"x-recent-history-no-store": True}})
    content = b"".join(encode(props, body) for props, body in ((kept, b"1"), (passing, b"2"), (kept, b"3")))
    client.session.publisher.publish(Run("x", "k", content, 3, 3, persistent=True, look=LOOK_HEADERS), client.world.now)
    client.world.end_turn()
    assert client.bodies_of("q") == [b"1", b"2", b"3"]
    assert bind(client, "r") == [b"1", b"3"]


def test_what_says_so_is_passed_on_and_not_remembered(client: Client) -> None:
    client.declare_exchange("x", "x-recent-history")
    bind(client, "q")
    client.publish("x", "k", b"1", headers={"a": 1})
    client.publish("x", "k", b"2", headers={"x-recent-history-no-store": True})
    client.publish("x", "k", b"3")
    assert client.bodies_of("q") == [b"1", b"2", b"3"]
    assert bind(client, "r") == [b"1", b"3"]


def test_an_exchange_that_is_declared_anew_remembers_nothing(client: Client) -> None:
    world = client.world
    client.declare_exchange("x", "x-recent-history")
    client.publish("x", "k", b"old")
    world.answer(client.session.topology.delete_exchange("x", if_unused=False, now=world.now))
    client.declare_exchange("x", "x-recent-history")
    assert bind(client, "q") == []


def test_an_exchange_that_is_bound_passes_the_history_on_by_its_own_rules(client: Client) -> None:
    world = client.world
    client.declare_exchange("x", "x-recent-history")
    client.declare_exchange("y", "headers")
    client.declare("q")
    client.bind("q", "y", "", kind="wanted")
    for number in range(4):
        client.publish("x", "k", b"%d" % number, headers={"x-kind": "wanted"} if number % 2 else {})
    client.declare_exchange("z", "direct")
    client.declare("r")
    client.bind("r", "z", "k")
    world.answer(client.session.topology.bind_exchange("z", "x", "", {}, world.now))
    world.end_turn()
    assert client.bodies_of("r") == numbered(4)


@pytest.mark.parametrize("length", [0, -1, "3", True, 2.5])
def test_a_length_that_is_none_is_refused(client: Client, length: object) -> None:
    with pytest.raises(PreconditionFailed, match="'x-recent-history-length' must be a positive integer"):
        client.declare_exchange("x", "x-recent-history", arguments={"x-recent-history-length": length})


def test_a_length_beyond_what_an_exchange_remembers_is_refused(client: Client) -> None:
    """A length of millions was taken: all of it was replayed in one turn."""
    arguments = {"x-recent-history-length": HISTORY_LENGTH_MAX + 1}
    with pytest.raises(PreconditionFailed, match=r"Invalid argument 10001, .* must be at most 10000"):
        client.declare_exchange("x", "x-recent-history", arguments=arguments)
    client.declare_exchange("x", "x-recent-history", arguments={"x-recent-history-length": HISTORY_LENGTH_MAX})


def run_of(*bodies: bytes) -> Run:
    return Run("x", "k", b"".join(encode(b"\0\0", body) for body in bodies), len(bodies), sum(map(len, bodies)))


def bodies_of(history: RecentHistory) -> list[bytes]:
    return [body for run in history.runs for _, body in messages(run.content, 0, run.count)]


def test_runs_are_cut_to_the_length() -> None:
    history = RecentHistory()
    for first in range(0, 50, 5):
        history.add(run_of(*numbered(5, first)), 7)
        assert bodies_of(history) == numbered(min(first + 5, 7), max(0, first - 2))
    history.add(run_of(*numbered(100)), 7)
    assert bodies_of(history) == numbered(7, 93)


def test_bytes_are_bounded_whatever_the_length() -> None:
    history = RecentHistory()
    quarter = bytes(HISTORY_BYTES_MAX // 4)
    for _ in range(6):
        history.add(run_of(quarter), 1_000_000)
    assert len(bodies_of(history)) == 3


def test_empty_messages_are_bounded_by_the_memory_that_their_runs_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only contents were counted: a million runs of one empty message took hundreds of megabytes."""
    run = run_of(b"")
    each = RUN_BYTES + len(run.routing_key) + len(run.content)
    assert sys.getsizeof(run) + sys.getsizeof(run.content) + sys.getsizeof(run.routing_key) <= each
    monkeypatch.setattr(recent_history, "HISTORY_BYTES_MAX", 10 * each + each // 2)
    history = RecentHistory()
    for _ in range(25):
        history.add(run, 1_000_000)
    assert len(history.runs) == 10
