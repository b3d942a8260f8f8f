"""links/federation/in_flight.py against a dictionary from each number to its tag."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from links.federation.in_flight import LinkInFlight


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans())), st.data())
def test_each_answer_names_the_tags_of_what_it_speaks_of(parts: list[tuple[int, bool]], data: st.DataObject) -> None:
    flight = LinkInFlight()
    tag_of: dict[int, int] = {}
    tag = number = 1
    for count, is_published in parts:
        flight.delivered(tag, count)
        if is_published:
            flight.published(tag, count, 10 * count)
            tag_of |= {number + place: tag + place for place in range(count)}
            number += count
        tag += count
    while tag_of:
        last = data.draw(st.sampled_from(sorted(tag_of)))
        multiple = data.draw(st.booleans())
        answered = [one for one in tag_of if one == last or (multiple and one < last)]
        found = flight.answered(last, last, multiple=multiple)
        assert [one for low, high in found for one in range(low, high)] == [tag_of.pop(one) for one in sorted(answered)]
        assert flight.unanswered == len(tag_of)
    assert flight.bytes_held == 0


def test_one_acknowledgement_is_good_for_all_where_nothing_older_is_left() -> None:
    flight = LinkInFlight()
    flight.delivered(1, 6)
    assert not flight.settle(3, 4)
    assert flight.settle(1, 3)
    assert flight.settle(4, 7)
