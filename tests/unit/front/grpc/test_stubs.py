"""front/grpc/stubs.py: fields by the names of attributes, in the form that protobuf can carry."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.operations.resources import QueueView
from broker.queues.queue_type import QueueStatistics
from broker.records import PolicyRecord, QueueRecord, VhostRecord
from front.grpc import convert, describe
from front.grpc.stubs import stub_of
from leveret.v1 import admin_pb2 as pb
from leveret.v1 import topology_pb2

NOT_UTF8 = b"a\xff".decode("utf-8", "surrogateescape")


def test_texts_lists_of_texts_maps_and_tables_are_carried_each_in_its_form() -> None:
    vhost = stub_of(pb.Vhost, VhostRecord(NOT_UTF8, tags=("x", NOT_UTF8), limits={"max-queues": 3}))
    assert (vhost.name, list(vhost.tags), dict(vhost.limits)) == ("a\ufffd", ["x", "a\ufffd"], {"max-queues": 3})
    policy = stub_of(pb.Policy, PolicyRecord("/", "p", ".", "all", -1, {"max-length": 7}))
    assert (policy.priority, convert.plain_table(policy.definition)) == (-1, {"max-length": 7})


def test_the_first_part_that_has_it_counts_and_what_is_given_before_all() -> None:
    first, second = SimpleNamespace(kind="memory"), SimpleNamespace(kind="disk", reason="full", since_ms=1)
    assert stub_of(pb.Alarm, first, second, since_ms=5) == pb.Alarm(kind="memory", reason="full", since_ms=5)


def test_a_field_that_no_part_has_is_a_fault_of_ours() -> None:
    with pytest.raises(AttributeError, match="since_ms"):
        stub_of(pb.Alarm, SimpleNamespace(kind="memory", reason="full"))


@pytest.mark.parametrize(
    ("figures", "state", "ready"), [(None, "", 0), (QueueStatistics(ready=2), "running", 2)], ids=("opening", "open")
)
def test_a_queue_that_is_being_opened_has_no_state(figures: Any, state: str, ready: int) -> None:
    record = QueueRecord("/", "q", "classic", True, False, False, {"x-max-length": 5}, id=1, home="n1")
    stub = describe.queue(QueueView(record, "p", None, figures))
    assert stub == topology_pb2.Queue(
        vhost="/", name="q", kind="classic", durable=True, arguments=convert.table({"x-max-length": 5}),
        home="n1", policy="p", state=state, ready=ready,
    )  # fmt: skip
