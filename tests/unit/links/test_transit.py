"""links/shovel/transit.py beside a twin that keeps each message by itself."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from links.shovel.transit import ALIKE_MAX, Transit
from native.content import encode
from wire.amqp.tables import encode_properties


@dataclass
class Sent:
    first_tag: int
    count: int
    content: bytes


@dataclass
class Held:
    """A run that is on its way, as long as the oldest that is not answered is before its end."""

    end: int
    size: int


def run(first: int, *bodies: bytes) -> Sent:
    return Sent(first, len(bodies), b"".join(encode(b"\0\0", body) for body in bodies))


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    answers=st.lists(st.tuples(st.integers(1, 24), st.integers(0, 5), st.booleans()), max_size=12),
)
def test_each_message_is_answered_once_and_bytes_come_back(
    sizes: list[int], answers: list[tuple[int, int, bool]]
) -> None:
    transit, first, sent = Transit(), 1, list[Held]()
    for size in sizes:
        one = run(first, *[b"x"] * size)
        transit.sent(one, b"e", b"k", one.content, confirms=True)
        first += size
        sent.append(Held(first, len(one.content)))
    left = set(range(1, first))
    for start, length, multiple in answers:
        arrived, returned = transit.answered(start, start + length, multiple=multiple)
        told = {number for low, high in arrived for number in range(low, high)}
        expected = {n for n in left if n <= start + length and (multiple or n >= start)}
        assert (told, returned) == (expected, [])
        left -= expected
        assert transit.unanswered == len(left)
        assert transit.bytes_held == sum(one.size for one in sent if one.end > min(left, default=first))
    transit.answered(first - 1, first - 1, multiple=True)
    assert (transit.unanswered, transit.bytes_held) == (0, 0)


def test_what_came_back_is_told_apart_from_what_arrived() -> None:
    transit, one = Transit(), run(1, b"a", b"b", b"a", b"c")
    transit.sent(one, b"e", b"k", one.content, confirms=True)
    assert transit.came_back("e", "k", b"\0\0", b"a")
    assert transit.came_back("e", "k", b"\0\0", b"a")
    assert not transit.came_back("e", "k", b"\0\0", b"a"), "both are known to be back"
    assert not transit.came_back("e", "other", b"\0\0", b"c")
    assert transit.answered(4, 4, multiple=True) == ([(2, 3), (4, 5)], [(1, 2), (3, 4)])


def test_one_acknowledgement_is_good_for_all_where_the_source_is_owed_nothing_older() -> None:
    transit, one = Transit(), run(1, *[b"x"] * 6)
    transit.sent(one, b"e", b"k", one.content, confirms=True)
    assert not transit.settle(3, 4)
    assert transit.settle(1, 3)
    assert transit.settle(4, 7) and transit.unsettled == 0


def test_many_that_come_back_are_found_one_behind_the_other() -> None:
    """Each was looked for from the first on: a run of 8,000 took minutes."""
    transit, one = Transit(), run(1, *[b"same"] * 8000)
    transit.sent(one, b"e", b"k", one.content, confirms=True)
    assert all(transit.came_back("e", "k", b"\0\0", b"same") for _ in range(8000))
    assert transit.answered(8000, 8000, multiple=True) == ([], [(1, 8001)])


def with_id(name: bytes) -> bytes:
    return encode_properties({"message_id": name.decode()})


def test_of_two_with_the_same_body_the_one_with_these_properties_came_back() -> None:
    """The other one was given back twice, and this one was lost: acknowledged, and in no queue."""
    transit = Transit()
    content = b"".join(encode(with_id(name), b"") for name in (b"first", b"second", b"third"))
    transit.sent(Sent(1, 3, content), b"e", b"k", content, confirms=True)
    assert transit.came_back("e", "k", with_id(b"second"), b"")
    assert transit.answered(3, 3, multiple=True) == ([(1, 2), (3, 4)], [(2, 3)])


def test_properties_tell_as_long_as_they_come_back_as_they_went() -> None:
    transit = Transit()
    content = b"".join(encode(with_id(b"%d" % number), b"") for number in range(4))
    transit.sent(Sent(1, 4, content), b"e", b"k", content, confirms=True)
    assert transit.came_back("e", "k", with_id(b"1"), b"")
    assert transit.came_back("e", "k", with_id(b"3"), b"")
    assert transit.answered(4, 4, multiple=True) == ([(1, 2), (3, 4)], [(2, 3), (4, 5)])


def test_what_has_arrived_is_not_what_came_back() -> None:
    """The return was taken for one that was confirmed, and the message itself was acknowledged and lost."""
    transit, one = Transit(), run(1, *[b"same"] * 3)
    transit.sent(one, b"e", b"k", one.content, confirms=True)
    assert transit.answered(1, 1, multiple=False) == ([(1, 2)], [])
    assert transit.came_back("e", "k", b"\0\0", b"same")
    assert transit.answered(3, 3, multiple=True) == ([(3, 4)], [(2, 3)])


def test_no_headers_and_a_table_without_any_are_the_same_properties() -> None:
    transit = Transit()
    content = encode(with_id(b"first"), b"a") + encode(b"\0\0", b"a")
    transit.sent(Sent(1, 2, content), b"e", b"k", content, confirms=True)
    assert transit.came_back("e", "k", encode_properties({"headers": {}}), b"a")
    assert transit.answered(2, 2, multiple=True) == ([(1, 2)], [(2, 3)])


def test_a_broker_that_changes_properties_is_believed_what_the_body_is_and_compared_with_no_longer() -> None:
    transit, one = Transit(), run(1, *[b"same"] * ALIKE_MAX * 3)
    transit.sent(one, b"e", b"k", one.content, confirms=True)
    assert all(transit.came_back("e", "k", with_id(b"other"), b"same") for _ in range(ALIKE_MAX * 3))
    assert transit.answered(3 * ALIKE_MAX, 3 * ALIKE_MAX, multiple=True) == ([], [(1, 3 * ALIKE_MAX + 1)])
