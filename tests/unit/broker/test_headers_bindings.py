"""The index of a headers exchange against its definition: ask every binding."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.exchanges.headers_bindings import HeaderCondition, HeadersBindings
from broker.records import BindingRecord
from broker.table_values import header_key

NAMES = st.sampled_from(["a", "b", "x-c"])
VALUES = st.sampled_from([None, 1, 1.0, Decimal(1), True, False, 0, "1", "", b"1", [1], {"a": 1}, [True]])
CONDITIONS = st.tuples(
    st.sampled_from(["all", "any", "all-with-x", "any-with-x", None]), st.dictionaries(NAMES, VALUES, max_size=3)
)
STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 20), CONDITIONS), max_size=25)


def bound(number: int, mode: str | None, wanted: dict[str, Any]) -> BindingRecord:
    return BindingRecord("/", "h", f"q{number}", "queue", "", wanted | ({} if mode is None else {"x-match": mode}))


@given(STEPS, st.dictionaries(NAMES, VALUES, max_size=3))
def test_a_message_goes_where_asking_every_binding_would_send_it(
    steps: list[tuple[bool, int, tuple[str | None, dict[str, Any]]]], headers: dict[str, Any]
) -> None:
    bindings, there = HeadersBindings(), []
    for number, (adds, which, condition) in enumerate(steps):
        if adds or not there:
            there.append(bound(number, *condition))
            bindings.add(there[-1])
        else:
            bindings.remove(there.pop(which % len(there)))
    keys = {name: header_key(value) for name, value in headers.items()}
    expected = [one.destination for one in there if HeaderCondition.of(one.arguments).holds(keys)]
    assert [name for _, name in bindings.match([""], lambda: headers)] == expected
    assert bindings.count == len(there)


def test_an_integer_is_no_float_and_a_text_is_its_bytes() -> None:
    """Measured on RabbitMQ 4.3: each of these values bound, and published, against all others."""
    values = [1, 1.0, Decimal(1), True, "1", b"1", None]
    bindings = HeadersBindings()
    for number, value in enumerate(values[:-1]):
        bindings.add(bound(number, "all", {"a": value}))
    matching = [[name for _, name in bindings.match([""], lambda: {"a": value})] for value in values]  # noqa: B023
    assert matching == [["q0"], ["q1"], ["q2"], ["q3"], ["q4", "q5"], ["q4", "q5"], []]


@pytest.mark.parametrize("mode", ["all", "any"])
def test_few_of_many_bindings_are_asked(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bindings = HeadersBindings()
    for number in range(1_000):
        common = {"kind": "order"} if mode == "all" else {}
        bindings.add(bound(number, mode, {**common, "number": number}))
    asked = []
    holds = HeaderCondition.holds
    monkeypatch.setattr(HeaderCondition, "holds", lambda self, headers: asked.append(1) or holds(self, headers))
    found = list(bindings.match([""], lambda: {"kind": "order", "number": 7}))
    assert found == [("queue", "q7")]
    assert len(asked) <= 2, "the first of those that want all is under the trait that others share"
