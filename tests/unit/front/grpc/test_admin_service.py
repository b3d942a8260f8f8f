"""Who may ask what, as a table; and that what is asked happens."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from typing import Any

import pytest

import leveret
from broker.catalog.commands.catalog_commands import PutPermission, PutUser
from broker.operations.operator import Operator
from broker.records import PermissionRecord, UserRecord
from front.node_ports import MemberMoveView
from leveret import errors, records
from leveret.life_records import LifePlace
from leveret.v1 import admin_pb2
from tests.unit.front.grpc.fakes import Running, bounded, running, until

ROOT = Operator("root", ("administrator",))
MOVE = MemberMoveView("/", "q", "n1", "n3", 1, 5, 2, 1, 2)

TAGS = ("", "management", "policymaker", "monitoring", "administrator")
EVERYBODY, MANAGEMENT, POLICYMAKER, ADMINISTRATOR = (
    set(TAGS), set(TAGS) - {""}, {"policymaker", "administrator"}, {"administrator"},
)  # fmt: skip

# Method of the client's Admin -> its arguments, and the tags that may call it.
CALLS: dict[str, tuple[tuple[Any, ...], set[str]]] = {
    "who_am_i": ((), EVERYBODY),
    "node_status": ((), MANAGEMENT),
    "alarms": ((), MANAGEMENT),
    "cluster_status": ((), MANAGEMENT),
    "check_node": ((), MANAGEMENT),
    "join_cluster": (("n2:5681",), ADMINISTRATOR),
    "leave_cluster": ((), ADMINISTRATOR),
    "plan_forget": (("n2",), ADMINISTRATOR),
    "forget_node": (("n2",), ADMINISTRATOR),
    "change_node_kind": (("ram",), ADMINISTRATOR),
    "plan_decommission": ((), MANAGEMENT),
    "decommission_node": (("n1",), ADMINISTRATOR),
    "cancel_decommission": ((), ADMINISTRATOR),
    "drain_node": ((), ADMINISTRATOR),
    "revive_node": ((), ADMINISTRATOR),
    "queue_status": (("q",), MANAGEMENT),
    "queue_conversion": (("q",), MANAGEMENT),
    "add_queue_member": (("q", "n3"), ADMINISTRATOR),
    "delete_queue_member": (("q", "n3"), ADMINISTRATOR),
    "transfer_queue_leader": (("q", "n3"), ADMINISTRATOR),
    "grow_queues": (("n3",), ADMINISTRATOR),
    "grow_queues_to": ((3,), ADMINISTRATOR),
    "shrink_queues": (("n3",), ADMINISTRATOR),
    "rebalance_queues": ((), ADMINISTRATOR),
    "vhosts": ((), MANAGEMENT),
    "connections": ((), MANAGEMENT),
    "channels": ((), MANAGEMENT),
    "consumers": ((), MANAGEMENT),
    "stream_publishers": ((), MANAGEMENT),
    "stream_consumers": ((), MANAGEMENT),
    "policies": ((), MANAGEMENT),
    "set_policy": (("p", "^q", {"max-length": 10}), POLICYMAKER),
    "clear_policy": (("p",), POLICYMAKER),
    "shovels": ((), MANAGEMENT),
    "shovel": (("first",), MANAGEMENT),
    "put_shovel": (("s", {"src-queue": "q"}), POLICYMAKER),
    "restart_shovel": (("s",), POLICYMAKER),
    "delete_shovel": (("s",), POLICYMAKER),
    "federation_links": ((), MANAGEMENT),
    "restart_federation_link": (("0a1b2c3d", "n1"), POLICYMAKER),
    "users": ((), ADMINISTRATOR),
    "set_password": (("other", "secret"), ADMINISTRATOR),
    "set_tags": (("other", ["management"]), ADMINISTRATOR),
    "put_vhost": ((records.Vhost("v2"),), ADMINISTRATOR),
    "permissions": ((), ADMINISTRATOR),
    "set_permissions": (("other", ".*", ".*", ".*"), ADMINISTRATOR),
    "clear_permissions": (("other",), ADMINISTRATOR),
    "topic_permissions": ((), ADMINISTRATOR),
    "set_topic_permissions": (("other", "amq.topic", ".*", ".*"), ADMINISTRATOR),
    "clear_topic_permissions": (("other",), ADMINISTRATOR),
    "set_vhost_limits": (("v2", {"max-queues": 5}), ADMINISTRATOR),
    "set_limits": (("other", {"max-channels": 5}), ADMINISTRATOR),
    "export_definitions": ((), ADMINISTRATOR),
    "import_definitions": ((b"{}",), ADMINISTRATOR),
    "set_log_level": (("debug",), ADMINISTRATOR),
    "trace_vhost": (("v2", True), ADMINISTRATOR),
    "delete_vhost": (("v2",), ADMINISTRATOR),
    "delete_user": (("other",), ADMINISTRATOR),
}
NOT_IN_THE_TABLE = {
    "convert_queue",
    "cancel_queue_conversion",
    "close_connection",
    "add_user",
    "redrive",
    "replay",
    "move_queue_members",
    "message_lives",
}  # each has a test of its own below
OF_THE_LOG = ("ListLog", "ExportLog", "DumpLog")  # test_log_service.py


def add_user(server: Running, name: str, *tags: str, vhost: str | None = "/") -> None:
    server.broker.catalog.apply(PutUser(UserRecord(name, f"hash of {name}", tags)))
    if vhost is not None:
        server.broker.catalog.apply(PutPermission(PermissionRecord(name, vhost, ".*", ".*", ".*")))


def as_user(server: Running, name: str) -> leveret.Node:
    return leveret.connect(server.target, user=name, password=name)


def with_server(work: Any) -> None:
    async def run() -> None:
        async with running() as server, leveret.connect(server.target) as node:
            await node.topology.declare_queue("q")
            await work(server, node)

    bounded(run())


def test_the_table_is_complete() -> None:
    public = {name for name in dir(leveret.connect("x").admin) if not name.startswith("_")}
    assert public == CALLS.keys() | NOT_IN_THE_TABLE
    methods = admin_pb2.DESCRIPTOR.services_by_name["Admin"].methods
    assert len(methods) == 62 + len(OF_THE_LOG), "a new method needs a row in the table, and this number"


@pytest.mark.parametrize("tag", TAGS)
def test_each_tag_may_call_just_what_the_table_says(tag: str) -> None:
    async def work(server: Running, admin: leveret.Node) -> None:
        add_user(server, "other")
        add_user(server, "caller", *([tag] if tag else []))
        async with as_user(server, "caller") as node:
            for name, (arguments, tags) in CALLS.items():
                if tag in tags:
                    await getattr(node.admin, name)(*arguments)
                else:
                    with pytest.raises(errors.AccessRefused, match="needs the tag"):
                        await getattr(node.admin, name)(*arguments)

    with_server(work)


def test_to_convert_a_queue_needs_the_tag_and_tells_why_it_cannot_be() -> None:
    """The queue of this world has no home that a cluster knows."""

    async def work(server: Running, admin: leveret.Node) -> None:
        add_user(server, "caller")
        async with as_user(server, "caller") as node:
            for call in (node.admin.convert_queue("q"), node.admin.cancel_queue_conversion("q")):
                with pytest.raises(errors.AccessRefused, match="needs the tag"):
                    await call
        with pytest.raises(errors.PreconditionFailed, match="cannot be converted: its home"):
            await admin.admin.convert_queue("q", dry_run=True)
        with pytest.raises(errors.PreconditionFailed, match="is not being converted"):
            await admin.admin.cancel_queue_conversion("q")
        assert (await admin.admin.queue_conversion("q")).state == "classic"

    with_server(work)


def test_a_vhost_without_permission_is_not_even_confirmed_to_exist() -> None:
    async def work(server: Running, admin: leveret.Node) -> None:
        add_user(server, "caller", "management", "policymaker", vhost=None)
        async with as_user(server, "caller") as node:
            for vhost in ("/", "missing"):
                for call in (
                    node.admin.queue_status("q", vhost=vhost),
                    node.admin.policies(vhost=vhost),
                    node.admin.shovels(vhost=vhost),
                    node.admin.restart_shovel("first", vhost=vhost),
                    node.admin.set_policy("p", ".", {"max-length": 1}, vhost=vhost),
                ):
                    with pytest.raises(errors.AccessRefused, match="has no access to vhost"):
                        await call
            assert await node.topology.queues(all_vhosts=True) == []
            assert await node.admin.vhosts() == []

    with_server(work)


def test_operator_policies_are_for_administrators() -> None:
    async def work(server: Running, admin: leveret.Node) -> None:
        add_user(server, "caller", "policymaker")
        async with as_user(server, "caller") as node:
            with pytest.raises(errors.AccessRefused, match="needs the tag 'administrator'"):
                await node.admin.set_policy("p", "^q", {"max-length": 10}, operator=True)
            with pytest.raises(errors.AccessRefused, match="needs the tag 'administrator'"):
                await node.admin.clear_policy("p", operator=True)
        await admin.admin.set_policy("p", "^q", {"max-length": 10}, operator=True, priority=3)
        assert await admin.admin.policies(operator=True) == [
            records.Policy("/", "p", "^q", "all", 3, {"max-length": 10}, operator=True)
        ]
        assert await admin.admin.policies() == []
        assert (await admin.topology.queues())[0].operator_policy == "p"

    with_server(work)


def test_users_are_added_changed_and_deleted() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        await node.admin.add_user("u", "secret", ["management"])
        with pytest.raises(errors.PreconditionFailed, match="user 'u' exists already"):
            await node.admin.add_user("u", "secret")
        await node.admin.set_tags("u", ["monitoring"])
        await node.admin.set_password("u", "new")
        users = server.broker.catalog.users
        assert users["u"] == UserRecord("u", "hash of new", ("monitoring",))
        await node.admin.set_password("u", None)
        assert [user.has_password for user in await node.admin.users() if user.name == "u"] == [False]
        await node.admin.delete_user("u")
        with pytest.raises(errors.NotFound, match="no user 'u'"):
            await node.admin.set_password("u", "x")
        with pytest.raises(errors.PreconditionFailed, match="a password has 1 to 1024 bytes, not 0"):
            await node.admin.add_user("v", "")

    with_server(work)


def test_who_makes_a_vhost_may_use_it_at_once() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        await node.admin.put_vhost(records.Vhost("v2", limits={"max-queues": 5}))
        assert await node.admin.permissions(vhost="v2") == [records.Permissions("guest", "v2", ".*", ".*", ".*")]
        await node.admin.clear_permissions("guest", vhost="v2")
        await node.admin.trace_vhost("v2", True)
        await node.admin.put_vhost(records.Vhost("v2", "described"))
        assert await node.admin.permissions(vhost="v2") == [], "it is not new any more"
        (_, vhost) = await node.admin.vhosts()
        assert (vhost.description, vhost.limits) == ("described", {"max-queues": 5})

    with_server(work)


def test_permissions_of_nobody_or_nowhere_are_not_found() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        for listed in (node.admin.permissions, node.admin.topic_permissions):
            with pytest.raises(errors.NotFound, match="no user 'nobody'"):
                await listed(user="nobody")
            with pytest.raises(errors.NotFound, match="no vhost 'nowhere'"):
                await listed(vhost="nowhere")

    with_server(work)


def test_definitions_say_which_node_has_written_them() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        document = json.loads(await node.admin.export_definitions())
        assert (document["product_name"], document["node"], document["cluster_name"]) == ("Leveret", "n1", "c1")

    with_server(work)


def test_a_connection_is_closed_by_its_user_or_an_administrator() -> None:
    async def work(server: Running, admin: leveret.Node) -> None:
        add_user(server, "caller", "management")
        publisher = await admin.publisher()
        (connection,) = await admin.admin.connections()
        async with as_user(server, "caller") as node:
            assert await node.admin.connections() == []
            with pytest.raises(errors.NotFound, match="that user 'caller' may close"):
                await node.admin.close_connection(connection.id)
        await admin.admin.close_connection(connection.name, "maintenance")
        await publisher.abandon()
        close_other, close_own = server.broker.audited
        assert re.fullmatch(
            rf"user 'caller' from 127\.0\.0\.1:\d+ over gRPC: close connection '{connection.id}': refused: no connection .*",
            close_other,
        )
        assert re.fullmatch(
            rf"user 'guest' from 127\.0\.0\.1:\d+ over gRPC: close connection '{re.escape(connection.name)}' of user "
            "'guest': maintenance",
            close_own,
        )
        assert server.broker.audit.changes == {("CloseConnection", "refused"): 1, ("CloseConnection", "done"): 1}

    with_server(work)


def test_a_queues_status_shows_what_it_is_made_of() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        status = await node.admin.queue_status("q")
        assert status.queue.name == "q"
        assert status.details == {"q1": 0, "q2": 0, "delta": 0, "q3": 0, "q4": 0, "target_ram_count": 1}
        with pytest.raises(errors.NotFound, match="no queue 'missing' in vhost '/'"):
            await node.admin.queue_status("missing")

    with_server(work)


def test_leaders_are_spread_of_one_kind_or_of_both_and_no_other_has_any() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        for kind in ("", "stream", "quorum"):
            await node.admin.rebalance_queues(kind=kind)
        with pytest.raises(errors.InvalidRequest, match="there are quorum and stream"):
            await node.admin.rebalance_queues(kind="classic")
        await node.admin.rebalance_queues(by="bytes", dry_run=True)
        assert server.members.asked == [
            "rebalance ", "rebalance  stream", "rebalance  quorum", "rebalance  by bytes dry"
        ]  # fmt: skip

    with_server(work)


def test_members_move_step_by_step_and_a_dry_run_is_one() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        planned = MemberMoveView("/", "q", "n1", "n4", 1, 40, 0, 1, 2)
        server.members.moves = [replace(planned, state="copying"), replace(planned, state="failed", error="n4 is down")]
        found = [
            (one.queue, one.target, one.state, one.error) async for one in node.admin.move_queue_members(by="bytes")
        ]
        assert found == [("q", "n4", "copying", ""), ("q", "n4", "failed", "n4 is down")]
        with pytest.raises(errors.InvalidRequest, match="there are quorum and stream"):
            assert [one async for one in node.admin.move_queue_members(kind="classic")]
        server.members.moves = []
        assert [one async for one in node.admin.move_queue_members(kind="stream", dry_run=True)] == []
        add_user(server, "reader", "monitoring")
        async with as_user(server, "reader") as other:
            with pytest.raises(errors.AccessRefused):
                assert [one async for one in other.admin.move_queue_members(dry_run=True)]
        assert server.members.asked == ["move   by bytes", "move  stream by queues dry"]

    with_server(work)


def test_members_are_not_moved_while_another_run_is_under_way_and_who_looks_on_is_told() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        server.members.moves = [MOVE, MOVE]
        server.members.goes_on = asyncio.Event()
        run = node.admin.move_queue_members()
        await anext(run)
        (row,) = server.moves.told_here(ROOT)
        assert (row["state"], row["user"], row["total"]) == ("moving", "guest", 2)
        with pytest.raises(errors.PreconditionFailed, match="node 'n1' is moving members"):
            assert [one async for one in node.admin.move_queue_members()]
        server.members.goes_on.set()
        assert len([one async for one in run]) == 1
        await until(lambda: server.moves.told_here(ROOT)[0]["state"] == "done")

    with_server(work)


def test_who_moves_members_is_told_when_somebody_else_ends_that() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        server.members.moves = [MOVE, replace(MOVE, number=2, state="copying")]
        server.members.goes_on = asyncio.Event()
        run = node.admin.move_queue_members()
        await anext(run)
        assert server.moves.ended_here(ROOT)
        server.members.goes_on.set()
        with pytest.raises(errors.PreconditionFailed, match="somebody has ended the moves"):
            assert [one async for one in run]
        assert server.moves.told_here(ROOT)[0]["state"] == "ended" and not server.moves.ended_here(ROOT)

    with_server(work)


def test_who_leaves_the_call_ends_the_run() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        server.members.moves = [MOVE, MOVE]
        server.members.goes_on = asyncio.Event()
        run = node.admin.move_queue_members()
        await anext(run)
        await run.aclose()
        await until(lambda: server.moves.told_here(ROOT)[0]["state"] == "ended")

    with_server(work)


def test_a_log_level_that_does_not_exist_is_refused_with_those_that_do() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        with pytest.raises(errors.InvalidRequest, match="'loud' is none of debug, info, warning, error"):
            await node.admin.set_log_level("loud")
        assert not server.broker.audited, "nothing is changed"
        await node.admin.set_log_level("debug")
        (line,) = server.broker.audited
        assert re.fullmatch(
            r"user 'guest' from 127\.0\.0\.1:\d+ over gRPC: set the log level of node 'n1' to debug", line
        )
        assert server.broker.audit.changes == {("SetLogLevel", "done"): 1}

    with_server(work)


def test_the_cluster_is_shown_and_changed() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        found = await node.admin.cluster_status()
        assert [(one.name, one.up, one.alarms) for one in found.nodes] == [
            ("n1", True, (records.Alarm("memory", "above the watermark", 1_000),))
        ]
        assert (found.metadata_leader, found.missing, found.problems) == ("n1", (), ("look at n1",))
        await node.admin.forget_node("n2")
        with pytest.raises(errors.RequestRefused, match="there are disk and ram"):
            await node.admin.change_node_kind("tape")
        with pytest.raises(errors.RequestRefused, match="the name of the node is missing"):
            await node.admin.forget_node("")
        assert server.cluster.asked == ["forget n2"]

    with_server(work)


def test_a_shovel_is_declared_once_shown_and_deleted() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        await node.admin.put_shovel("s", {"src-queue": "q", "src-queue-args": {"x-max-length": 5}}, create_only=True)
        record = server.broker.catalog.parameter("/", "shovel", "s")
        assert record is not None
        assert record.value == {"src-queue": "q", "src-queue-args": {"x-max-length": 5}}
        with pytest.raises(errors.PreconditionFailed, match="there is a shovel 's' in vhost '/' already"):
            await node.admin.put_shovel("s", {}, create_only=True)
        found = await node.admin.shovel("s")
        assert (found.node, found.state, found.remaining, found.forwarded) == ("n1", "running", 7, 30)
        assert (found.source.queue, found.destination.exchange, found.destination.exchange_key) == (
            "orders",
            "events",
            "new",
        )
        await node.admin.delete_shovel("s")
        for gone in (node.admin.delete_shovel("s"), node.admin.shovel("s"), node.admin.restart_shovel("s")):
            with pytest.raises(errors.NotFound, match="'s'"):
                await gone

    with_server(work)


def test_federation_links_are_shown_and_restarted() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        (found,) = (await node.admin.federation_links()).links
        assert (found.node, found.type, found.name, found.upstream, found.upstream_name, found.status) == (
            "n1", "exchange", "events", "origin", "events", "running",
        )  # fmt: skip
        assert (found.passed_on, found.dropped, found.refused, found.unconfirmed, found.restarts) == (30, 1, 2, 3, 4)
        await node.admin.restart_federation_link(found.id, "n1")
        with pytest.raises(errors.NotFound, match="no federation link '0a1b2c3d' of vhost '/' runs on node 'n2'"):
            await node.admin.restart_federation_link(found.id, "n2")

    with_server(work)


def test_lives_of_messages_are_for_who_sees_the_clients_of_others() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        await node.topology.declare_queue("orders")
        found = await node.admin.message_lives("orders", message_id="4712")
        died, letter = found.lives
        assert (died.queue, died.place, died.became) == ("orders", "7", (LifePlace("dead", "0"),))
        assert died.steps[0].who == "consumer 't' of ann (10.0.0.1:5)"
        assert (letter.was, letter.death_reason, letter.committed) == (LifePlace("orders", "7"), "rejected", False)
        assert [one.error for one in found.nodes] == ["", "it cannot be reached"] and found.more
        for wrong in ({}, {"message_id": ""}, {"place": "x"}, {"body_sha256": "1"}):
            with pytest.raises(errors.InvalidRequest):
                await node.admin.message_lives("orders", **wrong)
        add_user(server, "caller", "policymaker")
        async with as_user(server, "caller") as other:
            with pytest.raises(errors.AccessRefused, match="needs the tag 'monitoring'"):
                await other.admin.message_lives("orders", message_id="4711")

    with_server(work)


def test_replays_are_for_administrators_and_say_where_the_log_is_not_read() -> None:
    async def work(server: Running, node: leveret.Node) -> None:
        await node.topology.declare_queue("orders")
        with pytest.raises(errors.LeveretError, match="does not read its log for replays"):
            [_ async for _ in node.admin.replay("orders", "", routing_key="orders", dry_run=True)]
        with pytest.raises(errors.InvalidRequest, match="has one number, and 3 are given"):
            [_ async for _ in node.admin.replay("orders", "", routing_key="orders", after="1/2/3", dry_run=True)]
        add_user(server, "caller", "monitoring", "policymaker")
        async with as_user(server, "caller") as other:
            with pytest.raises(errors.AccessRefused, match="needs the tag 'administrator'"):
                [_ async for _ in other.admin.replay("orders", "", dry_run=True)]

    with_server(work)
