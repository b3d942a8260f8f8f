"""links/federation/copied_bindings.py against a set of what is bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.catalog.parts.namespace import BindingIdentity, identity_of
from broker.records import BindingRecord
from links.federation.copied_bindings import COMPARED_PER_STEP, CopiedBindings

DESTINATIONS = st.sampled_from(["q", "r", "s"])
KEYS = st.sampled_from(["", "a", "b"])
ARGUMENTS = st.sampled_from([{}, {"x-match": "all"}, {"n": 1, "m": "2"}])
CHANGES = st.lists(st.tuples(DESTINATIONS, KEYS, ARGUMENTS))


@given(st.lists(st.tuples(CHANGES, st.booleans())))
def test_whoever_follows_the_changes_has_what_is_bound(rounds: list[tuple[list[tuple[str, str, dict]], bool]]) -> None:
    bound: dict[BindingIdentity, BindingRecord] = {}
    copies = CopiedBindings()
    followed: set[tuple[str, str]] = set()
    for changes, looks in rounds:
        for destination, key, arguments in changes:
            record = BindingRecord("/", "x", destination, "queue", key, arguments)
            if bound.pop(identity_of(record), None) is None:
                bound[identity_of(record)] = record
        for _ in copies.compare(bound):
            pass
        if looks:
            for is_bound, key, arguments in copies.take_changes():
                assert ((key, repr(arguments)) in followed) != is_bound
                followed ^= {(key, repr(arguments))}
            assert followed == {(one.routing_key, repr(one.arguments)) for one in bound.values()}
    assert len(copies) == len(bound)
    assert {(key, repr(arguments)) for key, arguments in copies.all()} == {
        (one.routing_key, repr(one.arguments)) for one in bound.values()
    }
    assert copies.take_changes() == []


def test_bindings_may_come_and_go_while_they_are_compared() -> None:
    records = [BindingRecord("/", "x", "q", "queue", str(number), {}) for number in range(3 * COMPARED_PER_STEP)]
    bound = {identity_of(record): record for record in records}
    copies = CopiedBindings()
    for _ in copies.compare(bound):
        bound.popitem()
    for _ in copies.compare(bound):
        pass
    assert {key for key, _ in copies.all()} == {record.routing_key for record in bound.values()}
