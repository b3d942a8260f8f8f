"""Events, the log and the audit over HTTP: who sees which of them, what a filter leaves out, and where a cursor goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker.activity.node_events import NodeEvents
from broker.activity.ring import NumberedRing
from broker.catalog.commands import catalog_commands as commands
from broker.errors import AccessRefused
from broker.login.audit import Audit
from broker.operations.operator import Operator
from front.node_ports import LogLine
from tests.unit.front.web.test_api import HOME, NOW, World, broker_with_users

EVENTS, LOG, AUDIT = "/api/leveret/events", "/api/leveret/log", "/api/leveret/audit"


class Log:
    def __init__(self) -> None:
        self._lines: NumberedRing[LogLine] = NumberedRing(10, lambda: 0)
        self.after = self._lines.after

    def add(self, *levels: str) -> None:
        for level in levels:
            self._lines.add(LogLine(NOW, level, "leveret", f"a line of level {level}"))


class Watched(World):
    def __init__(self) -> None:
        self.log, broker = Log(), broker_with_users()
        self.events = NodeEvents(lambda: NOW)
        broker.events = self.events.ring  # type: ignore[attr-defined]
        super().__init__(broker, log_tail=self.log)
        self.others: dict[str, bytes] = {}
        self.api.everywhere._others = self

    async def ask(self, question: bytes, node: str | None = None) -> dict[str, bytes]:
        """What other nodes say."""
        return self.others

    def found(self, path: str, field: str, user: str = "root") -> list[Any]:
        return [row[field] for row in self.get(path, user)["items"]]


@pytest.fixture
def world() -> Watched:
    return Watched()


def test_events_of_clients_are_their_users_and_those_of_vhosts_are_seen_by_who_may_enter(world: Watched) -> None:
    world.events.connection("created", "theirs", "v", "user-management", "AMQP 0-9-1")
    world.events.connection("created", "of another", "v", "app", "AMQP 0-9-1")
    world.events.applied(commands.DeleteQueue("v", "in v"))
    world.events.applied(commands.DeleteQueue("/", "in /"))
    world.events.applied(commands.DeleteUser("a user"))
    assert world.found(EVENTS, "name", "user-management") == ["in v", "theirs"]
    for user in ("user-monitoring", "root"):
        assert world.found(EVENTS, "name", user) == ["a user", "in /", "in v", "of another", "theirs"]


def test_what_every_node_has_applied_is_told_by_the_one_that_is_asked(world: Watched) -> None:
    """And of clients and leaders each node tells its own."""
    world.events.applied(commands.DeleteQueue("v", "q"))
    world.events.leader(world.broker.catalog.apply(commands.DeclareQueue("v", "led", home=HOME)))
    world.events.connection("created", "c", "v", "app", "AMQP 0-9-1")
    source: Any = world.api.everywhere._sources["events"]
    root = Operator("root", ("administrator",))
    assert [row["name"] for row in source(root, {}, 10, "n2")] == ["c", "led"]
    assert [row["name"] for row in source(root, {}, 10, HOME)] == ["c", "led", "q"]


def test_a_cursor_goes_on_behind_what_was_told_also_behind_what_a_filter_left_out(world: Watched) -> None:
    for name in ("a", "b", "c"):
        world.events.applied(commands.DeleteQueue("v", name))
    world.events.applied(commands.DeleteUser("u"))
    first = world.get(f"{EVENTS}?kind=queue.")
    assert [row["name"] for row in first["items"]] == ["c", "b", "a"]
    assert first["cursor"] == f"{HOME}:{NOW + 4}"
    world.events.applied(commands.DeleteQueue("v", "d"))
    second = world.get(f"{EVENTS}?cursor={first['cursor']},n9:7")
    assert [row["name"] for row in second["items"]] == ["d"]
    assert second["cursor"] == f"{HOME}:{NOW + 5},n9:7", (
        "what another node has told is not forgotten while it does not answer"
    )
    third = world.get(f"{EVENTS}?cursor={second['cursor']}")
    assert (third["items"], third["cursor"]) == ([], second["cursor"])


def test_no_more_are_told_than_are_asked_for_and_those_are_the_newest(world: Watched) -> None:
    for name in "abc":
        world.events.applied(commands.DeleteQueue("v", name))
    assert world.found(f"{EVENTS}?limit=2", "name") == ["c", "b"]
    for limit in ("0", "1001", "x", "-1"):
        assert world.refused("GET", f"{EVENTS}?limit={limit}").status == 400


def test_of_all_nodes_together_no_more_are_told_than_are_asked_for(world: Watched) -> None:
    rows = [{"node": "n2", "number": number, "kind": "queue.deleted", "at": NOW + number} for number in (3, 2)]
    world.others = {"n2": ",".join(map(json.dumps, rows)).encode()}
    for name in "abc":
        world.events.applied(commands.DeleteQueue("v", name))
    found = world.get(f"{EVENTS}?limit=3")
    assert [(one["node"], one["number"]) for one in found["items"]] == [("n2", 3), ("n2", 2), (HOME, NOW + 3)]
    assert found["cursor"] == f"n2:3,{HOME}:{NOW + 3}"


def test_lines_of_the_log_are_told_from_their_level_on(world: Watched) -> None:
    world.log.add("debug", "info", "warning", "error", "critical", "strange")
    assert world.found(f"{LOG}?level=warning", "level") == ["strange", "critical", "error", "warning"]
    assert len(world.found(LOG, "level")) == 6
    assert world.refused("GET", f"{LOG}?level=loud").status == 400


def test_the_audit_is_found_by_user_and_by_text_in_whatever_case(world: Watched) -> None:
    audit = world.broker.audit = Audit(lambda _: None, lambda _: None)
    audit.changed("DeleteUser", "delete user 'anne'")
    audit.changed("DeleteUser", "delete user 'bob'", AccessRefused("Not allowed"))
    assert world.found(AUDIT, "what") == ["delete user 'bob'", "delete user 'anne'"]
    assert world.found(f"{AUDIT}?contains=ANNE", "what") == ["delete user 'anne'"]
    assert world.found(f"{AUDIT}?contains=not%20ALLOWED", "what") == ["delete user 'bob'"]
    assert world.found(f"{AUDIT}?user=nobody", "what") == []
    world.request("DELETE", "/api/connections/one", user="user-management")
    assert world.found(f"{AUDIT}?user=user-management", "what") != []
    assert set(world.found(f"{AUDIT}?user=user-management", "user")) == {"user-management"}


@pytest.mark.parametrize("tag", ["management", "policymaker", "monitoring"])
@pytest.mark.parametrize(("what", "last"), [("log lines", ("debug",)), ("audit lines", ("", ""))])
def test_a_node_that_is_asked_by_another_looks_at_the_tags_itself(
    world: Watched, tag: str, what: str, last: tuple[str, ...]
) -> None:
    source = world.api.everywhere._sources[what]
    with pytest.raises(AccessRefused):
        list(source(Operator("anne", (tag,)), {}, 10, *last))  # type: ignore[arg-type]
    assert list(source(Operator("anne", ("administrator",)), {}, 10, *last)) == []  # type: ignore[arg-type]


def test_a_cursor_of_very_many_nodes_is_refused(world: Watched) -> None:
    cursor = ",".join(f"n{number}:1" for number in range(257))
    assert world.refused("GET", f"{EVENTS}?cursor={cursor}").status == 400
    assert json.loads(world.request("GET", f"{EVENTS}?cursor={cursor.rpartition(',')[0]}").body)["items"] == []
