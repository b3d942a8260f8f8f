"""What a queue has after a crash of which the index tells, and the log too: its files stay for others that use it."""

from __future__ import annotations

from broker.queues.queue_type import Outcome
from storage.wal.log_users import LogUsers
from tests.unit.classic.classic_world import World, record_of


class SharedLog(World):
    """Another part of the node, as quorum queues, needs every file of the log."""

    def start(self) -> None:
        super().start()
        users = LogUsers(self.log)
        users.join("another")
        self.kind._storage.log_files = users.join(self.kind.name)


def test_what_was_moved_out_without_its_first_message_counts_once_though_the_log_has_it_still() -> None:
    """Its bytes counted twice: a limit on the queue's bytes would have dropped what was confirmed."""
    world = SharedLog([record_of("a", 1), record_of("passing", 2)])
    world.publish(["a"], [b"x" * 10, b"y" * 10, b"z" * 10], confirm=1)
    world.loop.run_soon()
    first, *others = [world.get("a") for _ in range(3)]
    assert first is not None
    world.queues["a"].settle(first.piece, Outcome.ACKNOWLEDGED, world.now)
    for other in others:
        assert other is not None
        world.queues["a"].settle(other.piece, Outcome.RETURNED, world.now)
    for _ in range(120):
        world.publish(["passing"], [b"passing by"])
        assert world.get("passing", no_ack=True) is not None
        world.loop.run_soon()
        world.tick()
    assert world.kind._storage.log_files.files().start > 1 == world.log.files().start
    world.disk.kill()
    world.start()
    queue = world.queues["a"]
    assert (queue.ready_count, queue.ready_bytes) == (2, 20)
    assert world.waiting("a") == [(b"y" * 10, True), (b"z" * 10, True)]
