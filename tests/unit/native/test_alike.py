"""native/alike.py: a content is cut where what its messages are stored by changes, and nowhere else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native import alike, compiled_twin
from native.content import encode, skip
from native.frame_split import LOOK_CC, LOOK_HEADERS, RUN_CONTENT_BYTES_MAX, RUN_MESSAGES_MAX, FrameError, look_at
from wire.amqp.tables import encode_properties


def _forms() -> list[object]:
    plain = pytest.param(SimpleNamespace(alike_runs=alike.alike_runs_plain), id="plain")
    twin = compiled_twin("frame_split")
    return (
        [plain] if twin is None else [plain, pytest.param(SimpleNamespace(alike_runs=twin.alike_runs), id="compiled")]
    )


FORMS = _forms()

properties = st.sampled_from(
    [
        {},
        {"delivery_mode": 2},
        {"delivery_mode": 2, "message_id": "a"},
        {"delivery_mode": 2, "message_id": "b"},
        {"priority": 3},
        {"expiration": "100"},
        {"user_id": "guest"},
        {"headers": {"CC": ["k"]}},
        {"headers": {"own": 1}},
        {"reply_to": "amq.rabbitmq.reply-to"},
    ]
)


def content_of(*messages: tuple[dict[str, Any], bytes]) -> bytes:
    return b"".join(encode(encode_properties(props), body) for props, body in messages)


@pytest.mark.parametrize("form", FORMS)
class TestAlikeRuns:
    def test_messages_that_agree_are_one_run_whatever_else_their_properties_say(self, form: Any) -> None:
        content = content_of(*(({"delivery_mode": 2, "message_id": str(n)}, b"%d" % n) for n in range(9)))
        assert form.alike_runs(content, 0, 9) == [(9, len(content), 9, True, 0, None, None, 0)]

    def test_each_of_what_a_message_is_stored_by_ends_a_run(self, form: Any) -> None:
        kinds: list[dict[str, Any]] = [{}, {"delivery_mode": 2}, {"priority": 1}, {"expiration": "9"}, {"user_id": "u"}]
        content = content_of(*((kind, b"x") for kind in kinds for _ in range(2)))
        runs = form.alike_runs(content, 0, 2 * len(kinds))
        assert [(run[0], *run[3:7]) for run in runs] == [
            (2, False, 0, None, None),
            (2, True, 0, None, None),
            (2, False, 1, None, None),
            (2, False, 0, b"9", None),
            (2, False, 0, None, b"u"),
        ]

    def test_a_message_that_is_copied_travels_alone(self, form: Any) -> None:
        content = content_of(({}, b"a"), ({"headers": {"CC": ["k"]}}, b"b"), ({"headers": {"own": 1}}, b"c"))
        runs = form.alike_runs(content, 0, 3)
        assert [(run[0], run[7]) for run in runs] == [(1, 0), (1, LOOK_CC | LOOK_HEADERS), (1, LOOK_HEADERS)]

    def test_a_run_ends_at_its_limits(self, form: Any) -> None:
        many = content_of(({}, b"")) * (RUN_MESSAGES_MAX + 1)
        assert [run[0] for run in form.alike_runs(many, 0, RUN_MESSAGES_MAX + 1)] == [RUN_MESSAGES_MAX, 1]
        half = content_of(({}, bytes(RUN_CONTENT_BYTES_MAX // 2)))
        assert [run[0] for run in form.alike_runs(half * 3, 0, 3)] == [1, 1, 1]
        assert form.alike_runs(content_of(({}, bytes(RUN_CONTENT_BYTES_MAX * 2))), 0, 1)[0][0] == 1

    @given(messages=st.lists(st.tuples(properties, st.binary(max_size=9)), max_size=12), skipped=st.integers(0, 12))
    def test_the_runs_are_the_messages_in_order(
        self, form: Any, messages: list[tuple[dict[str, Any], bytes]], skipped: int
    ) -> None:
        skipped = min(skipped, len(messages))
        content, left = content_of(*messages), messages[skipped:]
        position = skip(content, 0, skipped)
        runs = form.alike_runs(content, position, len(left))
        for count, end, body_bytes, *look in runs:
            some, left = left[:count], left[count:]
            position = skip(content, position, count)
            assert (end, body_bytes) == (position, sum(len(body) for _, body in some))
            looks = [look_at(encode_properties(props)) for props, _ in some]
            assert all(list(one[:4]) == look[:4] for one in looks)
            assert not any(one.look & ~look[4] for one in looks)
        assert not left
        assert runs == alike.alike_runs_plain(content, skip(content, 0, skipped), len(messages) - skipped)

    def test_damage_and_malformed_properties_are_said(self, form: Any) -> None:
        content = content_of(({}, b"abc"))
        for position in (-1, 1, len(content), 2**62):
            with pytest.raises(ValueError, match="damaged content"):
                form.alike_runs(content, position, 1)
        with pytest.raises(ValueError, match="damaged content"):
            form.alike_runs(content, 0, 2)
        with pytest.raises(FrameError, match="malformed property list of 3 bytes"):
            form.alike_runs(encode(b"\x80\0\xff", b""), 0, 1)
