"""What is no snapshot of a queue is refused, and the state stays as it was."""

from __future__ import annotations

from struct import pack, pack_into
from zlib import crc32

import pytest

from broker.queues.queue_type import Outcome
from native.crc32c import crc32c
from quorum.fifo.commands import Consume, NodeDown, Producer, SessionGone, SessionKey, Upgrade, encode_enqueue
from quorum.fifo.machine import QueueMachine
from quorum.fifo.rules import DeadLetters, Retry, Rules
from quorum.fifo.versions import VERSION_NEWEST
from tests.unit.quorum.queue_world import QueueWorld, consumer, restored

RULES = Rules(
    max_length=20, delivery_limit=1, retry=Retry.RETURNED, retry_min_ms=50, dead_letters=DeadLetters.AT_LEAST_ONCE,
    reject_publish=True, consumer_timeout_ms=100,
)  # fmt: skip


def busy() -> QueueWorld:
    """A queue that has something of everything."""
    world = QueueWorld(RULES)
    late, other = SessionKey(2, 5), SessionKey(3, 1)
    world.publish(3, session=late)
    world.consume(1, 2, session=late)
    world.wait(100)  # times out
    world.say(SessionGone(SessionKey(9, 3)))
    world.consume(3, 8)
    world.consume(4, 1, session=other, priority=2, timeout_ms=0)
    world.publish(12)
    world.settle(1, outcome=Outcome.REJECTED, by=3)
    world.settle(3, outcome=Outcome.REQUEUED, by=3)
    world.settle(4, outcome=Outcome.RETURNED, by=3)
    world.cancel(3)
    world.publish(6, expiration_ms=1000, priority=9)
    world.publish(50)  # rejected
    world.publish(2, priority=1)
    world.say(encode_enqueue(SessionKey(7, 1), 1, 1, 5, "", "q", b"", producer=Producer(b"shop", 17)))
    world.get(5)
    return world


def test_a_busy_queue_comes_back_whole() -> None:
    machine = busy().machine
    state = machine.state
    assert state.ready.count and state.delayed.count and state.dead.count and len(state.sessions.all) == 4
    assert any(one.overdue for one in state.consumers.all.values())
    again = restored(machine)
    assert again.state_digest() == machine.state_digest()
    for key in state.consumers.all:
        assert again.checked_out(key) == machine.checked_out(key)
    assert again.consumer_figures() == machine.consumer_figures()
    assert again.browse(0, 100) == machine.browse(0, 100)
    assert again.suspected() == machine.suspected()


def test_what_a_node_held_that_is_down_comes_back_in_time_behind_a_snapshot() -> None:
    other = SessionKey(2, 1)
    world = QueueWorld(Rules(disconnected_timeout_ms=500))
    world.consume(1, 5, session=other)
    world.publish(2)
    world.say(NodeDown(other))
    world.machine = restored(world.machine)
    world.wait(499)
    assert world.ready() == []
    world.wait(1)
    assert world.ready() == [0, 1]


def test_damage_anywhere_is_found() -> None:
    machine = busy().machine
    data = b"".join(machine.snapshot())
    before = machine.state_digest()
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1 << at % 8
        with pytest.raises(ValueError):
            machine.restore(bytes(damaged), 1)
    for end in (0, 1, 100, len(data) - 1):
        with pytest.raises(ValueError):
            machine.restore(data[:end], 1)
    assert machine.state_digest() == before


def test_bytes_with_a_right_checksum_that_make_no_sense_are_refused() -> None:
    data = b"".join(busy().machine.snapshot())
    for at in range(64, len(data) - 8, 3):
        nonsense = bytearray(data[:-4])
        pack_into("<I", nonsense, at, 0xFFFF_FFF0)
        state = bytes(nonsense) + pack("<I", crc32c(bytes(nonsense)))
        machine = QueueMachine()
        try:
            machine.restore(state, 1)
        except ValueError:
            assert machine.state.applied == 0
    with pytest.raises(ValueError, match="left over"):
        longer = data[:-4] + b"\0"
        QueueMachine().restore(longer + pack("<I", crc32c(longer)), 1)


def test_unknown_versions_are_refused() -> None:
    data = b"".join(busy().machine.snapshot())
    with pytest.raises(ValueError, match="update this node"):
        QueueMachine().restore(data, VERSION_NEWEST + 1)
    later = data[:4] + pack("<I", VERSION_NEWEST + 1) + data[8:-4]
    with pytest.raises(ValueError, match="update this node"):
        QueueMachine().restore(later + pack("<I", crc32c(later)), VERSION_NEWEST)


def test_a_command_to_use_an_unknown_version_stops_the_member() -> None:
    world = QueueWorld()
    assert world.say(Upgrade(VERSION_NEWEST)) == [None]
    with pytest.raises(ValueError, match="update this node"):
        world.say(Upgrade(VERSION_NEWEST + 1))


def test_a_snapshot_does_not_change_with_what_happens_later() -> None:
    world = busy()
    parts = world.machine.snapshot()
    checksum = crc32(b"".join(parts))
    world.publish(2)
    world.settle(1, 2, by=4, session=SessionKey(3, 1))
    world.say(Consume(consumer(20), "late"))
    world.wait(2000)
    assert crc32(b"".join(parts)) == checksum
