"""broker/login/audit.py: who, from where, what; never a secret; and counted."""

from __future__ import annotations

from asyncio import CancelledError
from contextvars import copy_context
from typing import Any, get_args

import pytest

from broker.catalog.commands import catalog_commands as commands
from broker.catalog.parts.catalog_nodes import NodeRecord
from broker.errors import NotFound
from broker.login.audit import _DESCRIBE, Actor, Audit, acting_for
from broker.login.client_address import ClientAddress
from broker.pending import Pending
from broker.records import (
    ParameterRecord,
    PermissionRecord,
    PolicyRecord,
    TopicPermissionRecord,
    UserRecord,
    VhostRecord,
)

CLIENT = ClientAddress("192.0.2.7", 4_000, False, "gRPC")
SECRET = "$argon2id$secret"
CHANGES: list[tuple[Any, str]] = [
    (commands.PutVhost(VhostRecord("v")), "put vhost 'v'"),
    (commands.DeleteVhost("v"), "delete vhost 'v'"),
    (
        commands.PutUser(UserRecord("u", SECRET, ("administrator",))),
        "put user 'u' with a password, tags: administrator",
    ),
    (commands.PutUser(UserRecord("u", None)), "put user 'u' without a password, tags: none"),
    (commands.DeleteUser("u"), "delete user 'u'"),
    (
        commands.PutPermission(PermissionRecord("u", "v", "c", "w", "r")),
        "put permission of user 'u' in vhost 'v': configure 'c', write 'w', read 'r'",
    ),
    (commands.DeletePermission("u", "v"), "delete permission of user 'u' in vhost 'v'"),
    (
        commands.PutTopicPermission(TopicPermissionRecord("u", "v", "e", "w", "r")),
        "put topic permission of user 'u' in vhost 'v', exchange 'e': write 'w', read 'r'",
    ),
    (commands.DeleteTopicPermission("u", "v"), "delete topic permission of user 'u' in vhost 'v', exchange: all"),
    (
        commands.PutPolicy(PolicyRecord("v", "p", "^q", "queues", 1, {"max-length": 5})),
        "put policy 'p' in vhost 'v' for queues like '^q': {'max-length': 5}",
    ),
    (commands.DeletePolicy("v", "p", operator=True), "delete operator policy 'p' in vhost 'v'"),
    (commands.SetParameter(ParameterRecord("v", "c", "n", {"uri": SECRET})), "set parameter 'n' of c"),
    (commands.ClearParameter("v", "c", "n"), "clear parameter 'n' of c"),
    (commands.SetVhostLimits("v", {"max-queues": 1}), "set limits of vhost 'v': {'max-queues': 1}"),
    (commands.SetUserLimits("u", {"max-connections": 1}), "set limits of user 'u': {'max-connections': 1}"),
    (commands.AddNode(NodeRecord("n2", 2, 0, "h:1")), "add node 'n2' at h:1, a disk node"),
    (commands.JoinNode(NodeRecord("n2", 2, 0, "h:1"), "drawn", 1), "add node 'n2' at h:1, a disk node"),
    (commands.PutNode(NodeRecord("n2", 2, 0, "h:1", draining=True)), "change node 'n2' at h:1, a disk node, draining"),
    (commands.RemoveNode("n2"), "remove node 'n2'"),
]


class Lines:
    def __init__(self) -> None:
        self.noted: list[str] = []
        self.warned: list[str] = []
        self.audit = Audit(self.noted.append, self.warned.append)


@pytest.mark.parametrize(("command", "what"), CHANGES)
def test_a_change_is_one_line_that_says_who_from_where_and_what(command: Any, what: str) -> None:
    def change() -> Lines:
        lines = Lines()
        acting_for(Actor("admin", CLIENT))
        pending: Pending[int] = Pending()
        seen: list[int] = []
        lines.audit.watched(command, pending).then(seen.append, pytest.fail)
        assert not lines.noted, "it is not carried out yet"
        pending.resolve(7)
        assert seen == [7]
        return lines

    lines = copy_context().run(change)
    assert lines.noted == [f"user 'admin' from 192.0.2.7:4000 over gRPC: {what}"]
    assert SECRET not in lines.noted[0]
    assert lines.audit.changes == {(type(command).__name__, "done"): 1}


def test_a_change_that_is_refused_says_so_and_without_a_client_it_is_the_nodes() -> None:
    lines = Lines()
    errors: list[Any] = []
    refused = NotFound("no user 'u'")
    lines.audit.watched(commands.DeleteUser("u"), Pending.failed(refused)).then(pytest.fail, errors.append)
    assert errors == [refused]
    assert lines.noted == ["this node: delete user 'u': refused: no user 'u'"]
    assert lines.audit.changes == {("DeleteUser", "refused"): 1}


def test_a_change_that_is_no_command_is_written_down_as_it_ends() -> None:
    def change() -> Lines:
        lines = Lines()
        acting_for(Actor("admin", CLIENT))
        refused = NotFound("no node 'n9'")
        lines.audit.changed("CloseConnection", "close connection 'c'")
        lines.audit.changed("CloseConnection", "close connection 'd'", refused)
        with lines.audit.change("AddQueueMember", "add a member"):
            assert len(lines.noted) == 2, "it is not carried out yet"
        with pytest.raises(NotFound), lines.audit.change("AddQueueMember", "add another"):
            raise refused
        with pytest.raises(CancelledError), lines.audit.change("AddQueueMember", "add a third"):
            raise CancelledError
        return lines

    lines = copy_context().run(change)
    who = "user 'admin' from 192.0.2.7:4000 over gRPC: "
    assert lines.noted == [
        f"{who}close connection 'c'",
        f"{who}close connection 'd': refused: no node 'n9'",
        f"{who}add a member",
        f"{who}add another: refused: no node 'n9'",
        f"{who}add a third: unknown: its client did not wait until it was done",
    ]
    assert lines.audit.changes == {
        ("CloseConnection", "done"): 1,
        ("CloseConnection", "refused"): 1,
        ("AddQueueMember", "done"): 1,
        ("AddQueueMember", "refused"): 1,
        ("AddQueueMember", "unknown"): 1,
    }


def test_what_clients_declare_is_not_audited_and_everything_else_is() -> None:
    declared = {
        commands.DeclareExchange, commands.DeleteExchange, commands.DeclareQueue, commands.DeleteQueue, commands.Bind,
        commands.Unbind,
    }  # fmt: skip
    by_nodes = {
        commands.SetQueueMembers, commands.SetClusterId, commands.NodeStarted, commands.NodeLost, commands.TakeClaim,
        commands.RenewClaims, commands.ReleaseClaim, commands.ConvertQueue, commands.UseQueue,
    }  # fmt: skip
    assert set(_DESCRIBE) == set(get_args(commands.Command)) - declared - by_nodes
    assert {type(command) for command, _ in CHANGES} == set(_DESCRIBE)
    lines = Lines()
    pending: Pending[Any] = Pending()
    assert lines.audit.watched(commands.DeleteQueue("v", "q"), pending) is pending


def test_a_failed_login_names_a_user_only_if_there_is_one() -> None:
    """What is typed into the wrong field is a password."""
    lines = Lines()
    lines.audit.login_failed("u", CLIENT, "wrong user or password")
    lines.audit.login_failed(None, CLIENT, "wrong user or password")
    lines.audit.logged_in(CLIENT)
    assert lines.warned == [
        "login failed: user 'u' from 192.0.2.7:4000 over gRPC: wrong user or password",
        "login failed: an unknown user from 192.0.2.7:4000 over gRPC: wrong user or password",
    ]
    assert lines.audit.logins == {("gRPC", False): 2, ("gRPC", True): 1}


def test_a_change_is_that_of_who_asked_for_it_though_another_is_served_when_it_is_done() -> None:
    def change() -> Lines:
        lines = Lines()
        pending: Pending[None] = Pending()
        acting_for(Actor("admin", CLIENT))
        lines.audit.watched(commands.DeleteUser("u"), pending)
        acting_for(Actor("somebody else", CLIENT))
        pending.resolve(None)
        return lines

    assert copy_context().run(change).noted == ["user 'admin' from 192.0.2.7:4000 over gRPC: delete user 'u'"]
