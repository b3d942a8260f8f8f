"""A disk that does not give what is on it: the node stops and says why, whoever it was that wanted to read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quorum.bodies import EntryCache
from raft.core.errors import Damaged
from raft.store.wal_log_store import WalLogStore
from storage.errors import DiskFailed, NoDescriptors
from tests.unit.quorum.clients import Clients, Publisher, Taker

WRONG = "cannot read a segment: simulated EIO"


@pytest.mark.parametrize("consumer_at", [1, 4])
def test_a_leader_that_cannot_read_stops_and_blames_nobody_who_asked(
    consumer_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For its own consumer, or for one of another node, whose link ended each time that it asked (simulation, seed 631)."""
    clients = Clients(4)
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    leader = cluster.leader(record)
    assert leader.number == 1
    publisher = Publisher(clients, 2, record)
    for _ in range(3):
        publisher.publish()
        cluster.run(0.2)
    store, member = leader.store.group(leader.queue(record).group), leader.queue(record).member
    assert member is not None
    mine, member.bodies._cache = store.member, EntryCache(1)
    read = WalLogStore.read_entry

    def read_entry(self: WalLogStore, index: int) -> bytes:
        if self is store:
            raise DiskFailed(WRONG)
        return read(self, index)

    monkeypatch.setattr(WalLogStore, "read_entry", read_entry)
    taker = Taker(clients, consumer_at, record)
    cluster.loop.run_for(1)
    assert (leader.failures, taker.bodies) == ([WRONG], [])
    assert 1 in cluster.nodes[4].wire.ways, "the link to the one who asks lives"
    leader.kill()
    again = cluster.restart(1)
    if consumer_at == 1:
        taker = Taker(clients, consumer_at, record)
    cluster.run(5)
    assert again.store.group(again.queue(record).group).member == mine, "its member is not given up"
    assert taker.bodies == [b"0", b"1", b"2"]
    cluster.close()


def test_a_node_that_cannot_read_what_a_new_member_stands_on_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error ended whatever else the log's commit was to bring about, and the node went on (simulation, seed 9400086)."""
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3])
    cluster.leader(record)
    follower = cluster.nodes[3]
    group = follower.queue(record).group

    def add(*_: object) -> None:
        raise NoDescriptors("cannot open a snapshot: simulated EMFILE")

    repairs: list[tuple[int, Damaged, Callable[[], bool]]] = []
    vars(follower)["_repair"] = lambda *repair: repairs.append(repair)
    follower.groups.damaged(group, Damaged("entry 1 cannot be read"))
    cluster.run(0.1)
    ((_, _, lives_again),) = repairs
    monkeypatch.setattr(follower.groups, "add", add)
    with pytest.raises(NoDescriptors):
        lives_again()
    assert follower.failures == ["cannot open a snapshot: simulated EMFILE"]
    cluster.close()
