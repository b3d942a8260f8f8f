"""The catalog as a machine: each command once and in order, and states that come back as they were."""

from __future__ import annotations

import pytest

from broker.catalog.carrying_out import CommandOutcome, EntryFate
from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.catalog_state import RECORDS_PER_PART, CatalogState, Position, decode_state
from broker.catalog.commands.catalog_commands import (
    Bind,
    Command,
    DeclareExchange,
    DeclareQueue,
    PutTopicPermission,
    SetClusterId,
    SetParameter,
    UnknownVersion,
    encode_command,
)
from broker.catalog.commands.metadata_entry import Origin, encode_entry
from broker.errors import InternalError, NotFound
from broker.records import BindingRecord, ExchangeRecord, ParameterRecord, TopicPermissionRecord
from node.catalog.metadata_machine import CatalogMachine, CatalogWatcher
from raft.core.messages import Entry
from tests.unit.node.metadata_world import described

DONE, REPEATED, MISSED, LATE, _ = EntryFate


class Log(CatalogWatcher):
    """Gives a machine entries with ascending indexes, and remembers what became of them."""

    def __init__(self, machine: CatalogMachine | None = None) -> None:
        self.machine = machine or CatalogMachine(Catalog(), Position())
        self.machine.watcher = self
        self.index = self.machine.position.applied
        self.outcomes: list[CommandOutcome] = []

    def applied(self, outcomes: object) -> None:
        assert isinstance(outcomes, list)
        self.outcomes += outcomes

    def take(self, origin: Origin, command: Command) -> EntryFate | None:
        self.index += 1
        entry = Entry(self.index, 1, 0, encode_entry(origin, encode_command(command)))
        (verdict,) = self.machine.apply([entry])
        return verdict

    def fill(self) -> Log:
        commands = [
            *default_commands("hash"),
            SetClusterId("0123"),
            DeclareExchange(ExchangeRecord("/", "x", "topic", arguments={"alternate-exchange": "y"})),
            DeclareQueue("/", "q", arguments={"x-expires": 5}),
            Bind(BindingRecord("/", "x", "q", "queue", "a.#")),
            PutTopicPermission(TopicPermissionRecord("guest", "/", "x", "a", "b")),
            SetParameter(ParameterRecord("", "global", "cluster_name", "c")),
        ]
        for number, command in enumerate(commands, 1):
            assert self.take(Origin(1, 7, number, number - 1), command) is DONE
        return self


def test_each_command_of_a_process_is_carried_out_once_and_in_order() -> None:
    log = Log().fill()
    last = log.machine.position.sessions[1][1]
    queue = DeclareQueue("/", "r")
    for origin, verdict in (
        (Origin(1, 7, last, last - 1), REPEATED),
        (Origin(1, 7, last + 2, last + 1), MISSED),
        (Origin(1, 7, last + 1, last), DONE),
        (Origin(1, 7, last + 2, last + 1), DONE),
        (Origin(2, 9, 2, 1), MISSED),  # another node's are counted for themselves
        (Origin(2, 9, 1, 0), DONE),
        (Origin(1, 8, 2, 1), MISSED),  # a new process begins with its first
        (Origin(1, 8, 1, 0), DONE),
        (Origin(1, 7, last + 3, last + 2), LATE),
    ):
        assert log.take(origin, queue) is verdict, origin
    assert log.machine.position.sessions == {1: (8, 1), 2: (9, 1)}


def test_a_refused_command_counts_as_carried_out() -> None:
    log = Log().fill()
    last = log.machine.position.sessions[1][1]
    assert log.take(Origin(1, 7, last + 1, last), Bind(BindingRecord("/", "nope", "q", "queue", ""))) is DONE
    assert isinstance(log.outcomes[-1].error, NotFound)
    assert log.take(Origin(1, 7, last + 2, last + 1), DeclareQueue("/", "r")) is DONE


def test_a_mistake_in_the_rules_refuses_one_command_and_ends_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log().fill()
    last = log.machine.position.sessions[1][1]

    def broken(command: Command) -> None:
        raise ZeroDivisionError(type(command).__name__)

    monkeypatch.setattr(log.machine.catalog, "apply", broken)
    assert log.take(Origin(1, 7, last + 1, last), DeclareQueue("/", "r")) is DONE
    assert isinstance(log.outcomes[-1].error, InternalError) and "ZeroDivisionError" in log.outcomes[-1].error.text


def test_what_is_in_the_catalog_already_changes_nothing() -> None:
    log = Log().fill()
    before, index = described(log.machine.catalog), log.index
    log.index = 0
    assert log.take(Origin(1, 7, 1, 0), DeclareQueue("/", "r")) is None
    assert (described(log.machine.catalog), log.machine.position.applied) == (before, index)


def test_an_entry_of_a_later_version_is_no_entry() -> None:
    machine = CatalogMachine(Catalog(), Position())
    for data in (b"", b"\x02" + bytes(39), b"\x04" + bytes(60), encode_entry(Origin(1, 1, 1, 0), b"\x01")):
        with pytest.raises(UnknownVersion):
            machine.apply([Entry(1, 1, 0, data)])


def test_a_state_comes_back_and_goes_on_alike() -> None:
    log = Log().fill()
    state = b"".join(log.machine.snapshot())
    other = Log()
    other.machine.restore(state, log.machine.version)
    other.index = other.machine.position.applied
    for one in (log, other):
        last = one.machine.position.sessions[1][1]
        assert one.take(Origin(1, 7, last, last - 1), DeclareQueue("/", "q")) is REPEATED
        assert one.take(Origin(1, 7, last + 1, last), DeclareQueue("/", "r")) is DONE
    assert described(other.machine.catalog) == described(log.machine.catalog)
    assert other.machine.position == log.machine.position
    assert b"".join(other.machine.snapshot()) == b"".join(log.machine.snapshot())


def test_a_state_does_not_change_with_the_catalog() -> None:
    log = Log().fill()
    before = b"".join(log.machine.snapshot())
    state = log.machine.snapshot()
    last = log.machine.position.sessions[1][1]
    log.take(Origin(1, 7, last + 1, last), DeclareQueue("/", "r"))
    assert b"".join(state) == before


def test_an_older_state_than_what_is_there_is_not_taken() -> None:
    log = Log().fill()
    older = b"".join(log.machine.snapshot())
    last = log.machine.position.sessions[1][1]
    log.take(Origin(1, 7, last + 1, last), DeclareQueue("/", "r"))
    before = described(log.machine.catalog)
    log.machine.restore(older, log.machine.version)
    assert described(log.machine.catalog) == before


def test_a_large_state_comes_in_parts() -> None:
    log = Log().fill()
    for number in range(RECORDS_PER_PART):
        log.machine.catalog.apply(DeclareQueue("/", f"q{number}"))
    state = CatalogState(log.machine.catalog, log.machine.position)
    assert len(state) == 3 and b"".join(state[0:3]) == b"".join(state)
    assert len(decode_state(b"".join(state))[2]) == len(list(log.machine.catalog.records()))


@pytest.mark.parametrize("harm", ["cut", "version", "letter", "empty", "head"])
def test_what_is_no_state_is_refused(harm: str) -> None:
    state = b"".join(Log().fill().machine.snapshot())
    bad = {
        "cut": state[:-1],
        "version": b"\x02" + state[1:],
        "letter": state + b"?\x00\x00\x00\x00",
        "empty": b"",
        "head": state[:5] + b"\xff" + state[6:],
    }[harm]
    machine = CatalogMachine(Catalog(), Position())
    with pytest.raises(ValueError, match=r"catalog|state"):
        machine.restore(bad, machine.version)
    with pytest.raises(ValueError, match="version 9 of the catalog's rules"):
        machine.restore(state, 9)
    assert not machine.catalog.vhosts
