"""The machine that the engine is tested with must itself be beyond doubt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raft.core.messages import Entry, EntryKind
from tests.raft_node import register
from tests.raft_node.register import Found, Outcome, Register, compare_and_set, delete, put, upgrade


class Log:
    """Entries, and a machine that reads live ones from them."""

    def __init__(self) -> None:
        self.data: dict[int, bytes] = {}
        self.machine = Register(self.data.__getitem__)

    def apply(self, *commands: bytes) -> list[Outcome]:
        entry = Entry(len(self.data) + 1, 1, EntryKind.COMMAND, b"".join(commands))
        self.data[entry.index] = entry.data
        (outcomes,) = self.machine.apply([entry])
        return outcomes

    def restored(self) -> Register:
        """Another machine from the snapshot, which sees live entries only."""
        live = set(self.machine.live_entries())
        machine = Register({index: data for index, data in self.data.items() if index in live}.__getitem__)
        machine.restore(b"".join(self.machine.snapshot()), self.machine.version)
        return machine


def test_put_compare_and_set_and_delete() -> None:
    log = Log()
    assert log.apply(put(b"a", b"1"), put(b"a", b"2"), put(b"b", b"x")) == [(True, 1), (True, 2), (True, 1)]
    assert log.apply(compare_and_set(b"a", 1, b"3")) == [(False, 2)]
    assert log.apply(compare_and_set(b"a", 2, b"3")) == [(True, 3)]
    assert log.apply(compare_and_set(b"new", 0, b"n")) == [(True, 1)]
    assert log.apply(delete(b"b"), delete(b"b")) == [(True, 0), (False, 0)]
    assert (log.machine.get(b"a"), log.machine.get(b"b"), len(log.machine)) == (Found(3, b"3"), None, 2)


def test_a_value_left_in_the_log_is_read_from_its_entry_until_it_is_overwritten() -> None:
    log = Log()
    log.apply(put(b"a", b"in the state"), put(b"b", b"in the log", in_log=True), put(b"c", b"too", in_log=True))
    assert list(log.machine.live_entries()) == [1]
    assert log.machine.get(b"b") == Found(1, b"in the log")
    log.apply(put(b"b", b"later", in_log=True))
    assert list(log.machine.live_entries()) == [1, 2]
    log.apply(delete(b"c"))
    assert list(log.machine.live_entries()) == [2]
    assert log.restored().get(b"b") == Found(2, b"later")


def test_from_version_2_on_a_key_never_has_the_same_version_twice() -> None:
    log = Log()
    log.apply(put(b"a", b"1"), delete(b"a"))
    assert log.apply(put(b"a", b"again")) == [(True, 1)]
    assert log.apply(upgrade(2)) == [(True, 2)]
    assert log.apply(delete(b"a"), put(b"a", b"once more")) == [(True, 0), (True, 2)]
    assert log.apply(put(b"b", b"other")) == [(True, 3)]
    assert log.apply(upgrade(1)) == [(False, 2)]
    assert log.restored().digest() == log.machine.digest()


def test_a_version_that_is_not_known_here_is_refused_not_guessed() -> None:
    log = Log()
    with pytest.raises(ValueError, match="version 3"):
        log.apply(upgrade(3))
    with pytest.raises(ValueError, match="version 3"):
        log.machine.restore(b"", 3)


@pytest.mark.parametrize("cut", [1, 12, 13, 40])
def test_a_state_that_is_cut_off_is_refused(cut: int) -> None:
    log = Log()
    log.apply(put(b"key", b"value"), put(b"another", b"value"))
    state = b"".join(log.machine.snapshot())
    with pytest.raises(ValueError, match="state"):
        Register().restore(state[:-cut], 1)
    with pytest.raises(ValueError, match="state"):
        Register().restore(state + bytes(cut), 1)


def test_a_key_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="65536 bytes"):
        put(bytes(65_536), b"")


@pytest.mark.parametrize("data", [b"", b"x", put(b"a", b"1")[:-1], bytes([9]) + put(b"a", b"1")[1:]])
def test_bytes_that_are_no_command_change_nothing(data: bytes) -> None:
    log = Log()
    before = log.machine.digest()
    log.apply(data)
    assert log.machine.digest() == before


KEYS = st.sampled_from([b"a", b"b", b"c"])
COMMANDS = st.one_of(
    st.builds(put, KEYS, st.binary(max_size=8), in_log=st.booleans()),
    st.builds(compare_and_set, KEYS, st.integers(0, 4), st.binary(max_size=8), in_log=st.booleans()),
    st.builds(delete, KEYS),
    st.builds(upgrade, st.integers(1, register.VERSION_NEWEST)),
)


@given(st.lists(st.lists(COMMANDS, max_size=4), max_size=12))
def test_a_restored_machine_is_the_same_machine(entries: list[list[bytes]]) -> None:
    log = Log()
    for commands in entries:
        assert len(log.apply(*commands)) == len(commands)
    twin = log.restored()
    assert twin.digest() == log.machine.digest()
    assert list(twin.live_entries()) == list(log.machine.live_entries())
    assert [twin.get(key) for key in (b"a", b"b", b"c")] == [log.machine.get(key) for key in (b"a", b"b", b"c")]
