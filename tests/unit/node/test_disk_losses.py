"""node/watching/disk_losses.py, node/watching/halted_groups.py: what a node's disk has lost is told in sentences."""

from __future__ import annotations

import logging

import pytest

from broker.records import QueueRecord
from node.watching.disk_losses import DiskLosses
from raft.core.errors import ReadmittedEarly
from raft.core.messages import member_id
from raft.stopped_members import old_disk

QUEUE = QueueRecord("/", "orders", "quorum", True, False, False, {}, 1)


def test_a_node_that_lost_nothing_has_nothing_to_tell() -> None:
    assert DiskLosses().sentences() == ()


def test_damage_is_told_with_what_others_repair_and_what_nobody_can() -> None:
    losses = DiskLosses(log_places=1, members=3)
    assert losses.sentences() == (
        "found its log damaged when it started, at 1 place: its disk is not to be trusted",
        "could not vouch for 3 replicated logs any more, which the other nodes repair",
    )
    said = losses.queue_cut(QUEUE, 40)
    assert "queue 'orders' in vhost '/' had its only copy on this node" in said and "entries up to 40" in said
    assert losses.sentences()[2:] == (
        "may have lost messages of 1 quorum queue, such as queue 'orders' in vhost '/': it had the only copy",
    )


def test_a_log_that_is_gone_is_told_as_that() -> None:
    losses = DiskLosses(log_places=1, log_is_gone=True)
    assert losses.sentences() == ("found nothing of its log when it started: what was only there is lost",)
    assert "begins empty" in losses.queue_cut(QUEUE, 0)


def test_a_member_that_was_removed_and_taken_in_again_is_no_loss(caplog: pytest.LogCaptureFixture) -> None:
    losses = DiskLosses()
    old, later = member_id(1, 1), member_id(1, 2)
    with caplog.at_level(logging.INFO):
        losses.member_begins_anew(7, ReadmittedEarly("member 1.1 was removed", later), alone=False)
    assert losses.sentences() == () and [record.levelname for record in caplog.records] == ["INFO"]
    losses.member_begins_anew(7, old_disk(old, later), alone=False)
    assert len(losses.sentences()) == 1 and caplog.records[-1].levelname == "ERROR"
