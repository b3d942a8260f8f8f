"""Every row of the oracle, with every kind of grants, in the user's own vhost and in another, subject there and missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from broker.catalog.commands import catalog_commands as commands
from broker.records import ExchangeRecord, TopicPermissionRecord
from tests.security import permission_oracle as oracle
from tests.security import wire
from tests.security.permission_oracle import Grants, Row
from tests.security.requests import frames_of
from tests.security.world import Line, World

USER, OWN, OTHER = "u", "own", "other"
CHANNEL = 1


@dataclass(frozen=True)
class Case:
    row: Row
    grants: Grants
    vhost: str  # where the client is; the grants are always for OWN

    @property
    def held(self) -> Grants:
        """What the user may do where it is."""
        return self.grants if self.vhost == OWN else Grants("nothing", "^$", "^$", "^$")

    def __str__(self) -> str:
        where = "" if self.vhost == OWN else " in another vhost"
        return f"{self.row.request} | {self.grants.idea}{where}"


CASES = [
    Case(row, grants, vhost) for row in oracle.rows() for grants in oracle.all_grants(row) for vhost in (OWN, OTHER)
]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    world = World()
    world.add_user(USER)
    for vhost in (OWN, OTHER):
        world.add_vhost(vhost)
        topic = TopicPermissionRecord
        world.permit(USER, vhost, "^$", "^$", "^$")
        world.submit(commands.PutTopicPermission(topic(USER, vhost, "topic", oracle.TOPIC_WRITE, oracle.TOPIC_READ)))
    yield world
    # Nothing that the matrix did may be left behind.
    for queue in world.broker.queues():
        assert queue.consumer_count == 0, f"{queue.record.name} still has {queue.consumer_count} consumers"


def arrange(world: World, vhost: str, subject: str | None, there: bool) -> None:
    """The oracle's queues and exchanges as new, except for the subject when it is to be missing."""
    wanted = {subject} if not there else set()
    for record in list(world.catalog.queues(vhost)):
        if record.name in wanted or record.name not in oracle.QUEUES or record.exclusive:
            world.submit(commands.DeleteQueue(vhost, record.name))
    for name, kind in oracle.EXCHANGES.items():
        if name in wanted:
            world.submit(commands.DeleteExchange(vhost, name))
            continue
        wish = ExchangeRecord(vhost, name, kind, durable=False, internal=name == "internal")
        current = world.catalog.exchange(vhost, name)
        if current is not None and current != wish:
            world.submit(commands.DeleteExchange(vhost, name))
        world.submit(commands.DeclareExchange(wish))
    for name in oracle.QUEUES:
        if name not in wanted:
            if world.catalog.queue(vhost, name) not in (None, plain_queue(world, vhost, name)):
                world.submit(commands.DeleteQueue(vhost, name))
            world.submit(commands.DeclareQueue(vhost, name, durable=False))


def plain_queue(world: World, vhost: str, name: str) -> object:
    """The record, if it is as `arrange` makes it."""
    record = world.catalog.queue(vhost, name)
    plain = record is not None and record.arguments == {"x-queue-type": "classic"} and not record.durable
    return record if plain else None


def outcome(line: Line, request: str) -> tuple[str, str]:
    """How a request ends on a fresh channel: `ok` or a reply code, and the text."""
    said = line.give(
        wire.method(CHANNEL, "channel.open"), frames_of(CHANNEL, request), wire.method(CHANNEL, "basic.qos")
    )
    for one in said:
        if one.name in ("channel.close", "connection.close"):
            answer = "channel.close-ok" if one.name == "channel.close" else "connection.close-ok"
            line.give(wire.method(one.channel, answer))
            return str(one.code), one.text
    assert any(one.name == "basic.qos-ok" for one in said), f"{request}: {said}"
    line.give(wire.method(CHANNEL, "channel.close"))
    return "ok", ""


def refusal_text(case: Case, there: bool) -> str | None:
    """What the refusal of a permission says; None when nothing is lacking."""
    need = oracle.refused_need(case.row, case.held, there)
    if need is None:
        return None
    name = need.name
    kind = "queue" if name in oracle.QUEUES or need.name == "amq.gen-*" else "exchange"
    if "queue=amq.mine" in case.row.request:
        kind = "queue"
    access = "" if need.access == "any" else f"{need.access} "
    named = re.escape(f"{kind} '{name}' in vhost '{case.vhost}'").replace(r"gen\-\*", r"gen-[\w-]{22}")
    return f"ACCESS_REFUSED - {access}access to {named} refused for user '{USER}'"


def test_the_matrix_is_complete() -> None:
    assert len(CASES) >= 1_500, f"only {len(CASES)} cases"
    requested = {step.split()[0] for row in oracle.rows() for step in row.request.split(";")}
    of_clients = {
        "access.request", "basic.ack", "basic.cancel", "basic.consume", "basic.get", "basic.nack", "basic.publish",
        "basic.qos", "basic.recover", "basic.recover-async", "basic.reject", "channel.flow", "confirm.select",
        "exchange.bind", "exchange.declare", "exchange.delete", "exchange.unbind", "queue.bind", "queue.declare",
        "queue.delete", "queue.purge", "queue.unbind", "tx.commit", "tx.rollback", "tx.select",
    }  # fmt: skip
    assert requested == of_clients, f"methods without a row: {of_clients - requested}"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_broker_decides_as_the_oracle_does(world: World, case: Case) -> None:
    held = case.grants
    world.permit(USER, OWN, held.configure, held.write, held.read)
    line = world.connect(USER, case.vhost)
    assert line.opened, line.last
    refusals = []
    for there in (True, False) if case.row.subject is not None else (True,):
        arrange(world, case.vhost, case.row.subject, there)
        code, text = outcome(line, case.row.request)
        state = "there" if there else "missing"
        assert code == oracle.verdict(case.row, case.held, there), f"{case}, {case.row.subject} {state}: {code} {text}"
        expected = refusal_text(case, there)
        if expected is not None:
            assert re.fullmatch(expected, text), f"{case}, {state}: {text!r}"
            refusals.append(text)
        if line.core.client is None:
            line = world.connect(USER, case.vhost)
    if len(refusals) == 2 and not any(need.only_when_missing for need in case.row.needs):
        assert refusals[0] == refusals[1], f"{case}: the refusal tells whether '{case.row.subject}' exists"
    line.give(wire.method(0, "connection.close"))
