"""native/frame_split.py: pamqp writes, the splitter reads; and what others would send is judged as RabbitMQ does."""

from __future__ import annotations

import random
import struct
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pamqp import commands, frame, heartbeat

from native import frame_split as fs
from tests.unit.native.both import forms
from tests.unit.native.wire import METHOD_LEN, Heard, ack, publish, publish_raw, raw_frame, walk

FORMS = forms("frame_split", "split", "parse_publish", "look_at")
FRAME_MAX = 4096
SIZE_MAX = 1 << 20


def split(form: Any, wire: bytes, *, start: int = 0, size_max: int = SIZE_MAX, assemble_max: int = 65536) -> Any:
    return form.split(wire, start, FRAME_MAX, size_max, assemble_max)


def runs(items: list[Any]) -> list[int]:
    """How many messages each run holds."""
    assert all(item[0] == fs.PUBLISH for item in items)
    return [item[3] for item in items]


@pytest.mark.parametrize("form", FORMS)
class TestPublishes:
    def test_alike_ones_become_one_run(self, form: Any) -> None:
        wire = b"".join(publish(b"%d" % n, delivery_mode=2, priority=4, message_id=str(n)) for n in range(9))
        (item,), consumed, error = split(form, wire)
        assert (consumed, error) == (len(wire), None)
        assert item[:2] == (fs.PUBLISH, 1)
        assert item[3] == 9
        assert item[5:] == (9, True, 4, None, None, 0)
        assert [body for _, body in walk(item[4])] == [b"%d" % n for n in range(9)]
        assert form.parse_publish(item[2]) == ("amq.topic", "a.b", False, False)

    @pytest.mark.parametrize(
        "other",
        [
            {"channel": 2},
            {"exchange": "amq.direct"},
            {"routing_key": "a.c"},
            {"mandatory": True},
            {"delivery_mode": 2},
            {"priority": 1},
            {"expiration": "60000"},
            {"user_id": "guest"},
        ],
    )
    def test_what_routing_or_storing_looks_at_cuts_a_run(self, form: Any, other: dict[str, Any]) -> None:
        wire = publish(b"1") + publish(b"2") + publish(b"3", **other) + publish(b"4")
        assert runs(split(form, wire)[0]) == [2, 1, 1]

    @pytest.mark.parametrize(
        ("properties", "look"),
        [
            ({"headers": {"CC": ["x"]}}, fs.LOOK_CC | fs.LOOK_HEADERS),
            ({"headers": {"a": {"CC": 1}, "BCC": ["x"]}}, fs.LOOK_CC | fs.LOOK_HEADERS),
            ({"reply_to": "amq.rabbitmq.reply-to"}, fs.LOOK_REPLY_TO),
            ({"reply_to": "amq.rabbitmq.reply-to.g1"}, fs.LOOK_REPLY_TO),
        ],
    )
    def test_what_needs_a_look_of_its_own_stays_alone(self, form: Any, properties: Any, look: int) -> None:
        wire = publish(b"1") + publish(b"2", **properties) * 2 + publish(b"3")
        items = split(form, wire)[0]
        assert runs(items) == [1, 1, 1, 1]
        assert [item[10] for item in items] == [0, look, look, 0]

    def test_headers_are_noted_but_cut_nothing(self, form: Any) -> None:
        wire = publish(b"1") + publish(b"2", headers={"a": {"CC": 1}}) + publish(b"3", reply_to="amq.rabbitmq.reply")
        (item,) = split(form, wire)[0]
        assert (item[3], item[10]) == (3, fs.LOOK_HEADERS)
        assert split(form, publish(b"", headers={}))[0][0][10] == 0

    def test_the_look_of_a_run_is_of_this_run_only(self, form: Any) -> None:
        wire = publish(b"1", headers={"a": 1}) + publish(b"2", routing_key="k") + publish(b"3", routing_key="k")
        assert [item[10] for item in split(form, wire)[0]] == [fs.LOOK_HEADERS, 0]

    def test_a_run_ends_at_its_limits(self, form: Any) -> None:
        wire = publish(b"") * (fs.RUN_MESSAGES_MAX + 1)
        assert runs(split(form, wire)[0]) == [fs.RUN_MESSAGES_MAX, 1]
        wire = publish(b"x" * 300_000, frame_max=FRAME_MAX) * 4 + publish(b"")
        assert runs(split(form, wire)[0]) == [3, 2]
        half = fs.RUN_CONTENT_BYTES_MAX // 2 - 10  # lengths and flags take 10
        wire = publish(b"x" * half, frame_max=FRAME_MAX) * 3
        assert runs(split(form, wire)[0]) == [2, 1]

    def test_one_message_beyond_the_run_limit_is_a_run(self, form: Any) -> None:
        wire = publish(b"x" * (fs.RUN_CONTENT_BYTES_MAX + 5), frame_max=FRAME_MAX)
        items, consumed, _ = split(form, publish(b"") + wire + publish(b""), size_max=1 << 30)
        assert (runs(items), consumed) == ([1, 1, 1], len(publish(b"") * 2 + wire))

    def test_a_message_in_several_body_frames_is_put_together(self, form: Any) -> None:
        text = random.Random(5).randbytes(9000)
        (item,) = split(form, publish(text, frame_max=FRAME_MAX))[0]
        assert walk(item[4])[0][1] == text

    def test_an_interrupted_message_goes_frame_by_frame(self, form: Any) -> None:
        method, rest = publish(b"1")[:METHOD_LEN], publish(b"1")[METHOD_LEN:]
        items, consumed, error = split(form, method + ack(5, channel=2) + rest)
        assert [item[:3] for item in items] == [(3, 1, 1), (2, 2, 5), (3, 2, 1), (3, 3, 1)]
        assert (consumed, error) == (len(method + ack(5) + rest), None)

    def test_a_message_above_the_size_limit_goes_frame_by_frame_at_once(self, form: Any) -> None:
        wire = publish(b"x" * 11)
        items, consumed, _ = split(form, wire[:-10], size_max=10)
        assert [item[1] for item in items] == [fs.FRAME_METHOD, fs.FRAME_HEADER]
        assert consumed == len(wire) - 19
        items, _, _ = split(form, wire, size_max=11)
        assert runs(items) == [1]

    @pytest.mark.parametrize(
        "head",
        [
            struct.pack(">HHQH", 90, 0, 0, 0),
            struct.pack(">HHQH", 60, 1, 0, 0),
            struct.pack(">HHQH", 60, 0, 2**63, 0),
            struct.pack(">HHQ", 60, 0, 0),
            b"",
        ],
        ids=["another class", "a weight", "2**63 bytes announced", "no flags", "empty"],
    )
    def test_a_header_that_is_not_plain_is_handed_on(self, form: Any, head: bytes) -> None:
        method = publish(b"")[:METHOD_LEN]
        items, _, error = split(form, method + raw_frame(2, 1, head))
        assert [item[:2] for item in items] == [(fs.FRAME, 1), (fs.FRAME, 2)]
        assert items[1][3] == head
        assert error is None

    def test_more_body_than_announced_is_handed_on(self, form: Any) -> None:
        wire = publish_raw(b"\0\0", b"abc")[:-11] + raw_frame(3, 1, b"abcd")
        assert [item[:2] for item in split(form, wire)[0]] == [(fs.FRAME, 1), (fs.FRAME, 2), (fs.FRAME, 3)]
        items = split(form, publish(b"abc") + raw_frame(3, 1, b""))[0]
        assert [item[0] for item in items] == [fs.PUBLISH, fs.FRAME]

    @pytest.mark.parametrize(
        "method",
        [b"\0\x3c\0\x28", b"\0\x3c\0\x28\0\0\1e\5k\0", b"\0\x3c\0\x28\0\0\xffe\1k\0", b"\0\x3c\0\x28\0\0\1e\1k\0\0"],
    )
    def test_a_malformed_publish_is_handed_on_and_refused(self, form: Any, method: bytes) -> None:
        wire = raw_frame(1, 1, method) + publish(b"x")[METHOD_LEN:]
        assert [item[0] for item in split(form, wire)[0]] == [fs.FRAME] * 3
        with pytest.raises(fs.FrameError, match=f"malformed basic.publish of {len(method)} bytes") as raised:
            form.parse_publish(method)
        assert raised.value.code == 502

    def test_names_that_are_not_utf_8_are_refused(self, form: Any) -> None:
        for method in (b"\0\x3c\0\x28\0\0\1\xff\1k\0", b"\0\x3c\0\x28\0\0\1e\1\xff\0"):
            with pytest.raises(fs.FrameError, match="not UTF-8") as raised:
                form.parse_publish(method)
            assert raised.value.code == 502

    @given(st.text("azAZ09-_.:", max_size=40), st.text(max_size=40), st.booleans(), st.booleans())
    def test_a_publish_method_is_read_as_pamqp_wrote_it(
        self, form: Any, exchange: str, routing_key: str, mandatory: bool, immediate: bool
    ) -> None:
        method = commands.Basic.Publish(0, exchange, routing_key, mandatory, immediate)
        payload = frame.marshal(method, 1)[7:-1]
        assert form.parse_publish(memoryview(payload)) == (exchange, routing_key, mandatory, immediate)


@pytest.mark.parametrize("form", FORMS)
class TestAcks:
    @pytest.mark.parametrize(
        ("acks", "expected"),
        [
            ([(1, 0), (2, 0), (3, 0)], [(1, 3, 0)]),
            ([(1, 0), (3, 0), (2, 0)], [(1, 1, 0), (3, 3, 0), (2, 2, 0)]),
            ([(1, 0), (1, 0)], [(1, 1, 0), (1, 1, 0)]),
            ([(2, 1), (5, 1), (9, 1)], [(9, 9, 1)]),
            ([(5, 1), (2, 1)], [(5, 5, 1), (2, 2, 1)]),
            ([(5, 1), (5, 1)], [(5, 5, 1), (5, 5, 1)]),
            ([(0, 1), (0, 1), (4, 1)], [(0, 0, 1), (0, 0, 1), (4, 4, 1)]),
            ([(0, 0), (1, 0), (2, 0)], [(0, 0, 0), (1, 2, 0)]),
            ([(4, 1), (0, 1)], [(4, 4, 1), (0, 0, 1)]),
            ([(1, 0), (2, 1), (3, 0)], [(1, 1, 0), (2, 2, 1), (3, 3, 0)]),
            ([(2**64 - 1, 0), (0, 0)], [(2**64 - 1, 2**64 - 1, 0), (0, 0, 0)]),
        ],
    )
    def test_merged_where_nothing_is_hidden_by_it(self, form: Any, acks: Any, expected: Any) -> None:
        wire = b"".join(raw_frame(1, 3, struct.pack(">HHQB", 60, 80, tag, multiple)) for tag, multiple in acks)
        items, consumed, _ = split(form, wire)
        assert items == [(fs.ACK, 3, first, last, bool(multiple)) for first, last, multiple in expected]
        assert consumed == len(wire)

    def test_not_merged_across_channels_or_other_frames(self, form: Any) -> None:
        beat = frame.marshal(heartbeat.Heartbeat(), 0)
        wire = ack(1) + ack(2, channel=2) + ack(2) + beat + ack(3) + publish(b"") + ack(4)
        assert [item[0] for item in split(form, wire)[0]] == [fs.ACK] * 3 + [fs.FRAME, fs.ACK, fs.PUBLISH, fs.ACK]

    def test_an_ack_of_another_length_is_handed_on(self, form: Any) -> None:
        payload = struct.pack(">HHQBB", 60, 80, 1, 0, 0)
        assert split(form, raw_frame(1, 1, payload))[0] == [(fs.FRAME, 1, 1, payload)]


@pytest.mark.parametrize("form", FORMS)
class TestFrames:
    def test_everything_else_is_handed_on_as_it_is(self, form: Any) -> None:
        declare = frame.marshal(commands.Queue.Declare(queue="q"), 7)
        beat = frame.marshal(heartbeat.Heartbeat(), 0)
        items, consumed, error = split(form, b"skip" + declare + beat + raw_frame(1, 2, b""), start=4)
        assert items == [(fs.FRAME, 1, 7, declare[7:-1]), (fs.FRAME, 8, 0, b""), (fs.FRAME, 1, 2, b"")]
        assert (consumed, error) == (4 + len(declare + beat) + 8, None)

    @pytest.mark.parametrize(
        ("bad", "text"),
        [
            (raw_frame(4, 1, b""), "unknown frame type 4 on channel 1"),
            (raw_frame(0, 1, b""), "unknown frame type 0"),
            (b"AMQP\0\0\x09\x01", "unknown frame type 65"),
            (raw_frame(1, 1, b"", end=0xCD), "frame of type 1 on channel 1 ends in 205, expected 206"),
            (raw_frame(3, 2, bytes(4097))[:7], "type 3 on channel 2 has 4097 payload bytes, frame_max is 4096"),
            (b"\2\0\1\xff\xff\xff\xff", "has 4294967295 payload bytes"),
        ],
    )
    @pytest.mark.parametrize("before", [b"", publish(b"1") * 2, publish(b"1")[:METHOD_LEN], publish(b"123")[:-11]])
    def test_a_broken_frame_ends_it_after_the_good_ones(self, form: Any, before: bytes, bad: bytes, text: str) -> None:
        items, consumed, error = split(form, before + bad + publish(b"2"))
        assert bool(items) is bool(before)
        assert consumed == len(before)
        assert error is not None
        assert error[0] == 501
        assert error[1].startswith("FRAME_ERROR - ")
        assert text in error[1]

    def test_eight_bytes_more_than_agreed_are_tolerated(self, form: Any) -> None:
        assert split(form, raw_frame(3, 1, bytes(4096)))[2] is None

    def test_no_frame_max_means_two_gigabytes(self, form: Any) -> None:
        assert form.split(b"\3\0\1\x7f\xff\xff\xff", 0, 0, SIZE_MAX) == ([], 0, None)
        assert form.split(b"\3\0\1\x80\0\0\0", 0, 0, SIZE_MAX)[2][0] == 501

    @pytest.mark.parametrize("start", [-1, 4])
    def test_a_start_outside_of_the_buffer_is_refused(self, form: Any, start: int) -> None:
        with pytest.raises(ValueError, match="outside of a buffer of 3 bytes"):
            split(form, b"abc", start=start)

    def test_the_end_of_the_buffer_is_no_item(self, form: Any) -> None:
        assert split(form, b"abc", start=3) == ([], 3, None)


@pytest.mark.parametrize("form", FORMS)
class TestArriving:
    def test_a_small_publish_is_waited_for(self, form: Any) -> None:
        wire = publish(b"x" * 50)
        for length in range(len(wire)):
            assert split(form, publish(b"0") + wire[:length])[1:] == (len(publish(b"0")), None)

    def test_a_publish_that_will_be_large_is_handed_on_as_it_comes(self, form: Any) -> None:
        wire = publish(b"x" * 1000)
        body_at = len(wire) - 1008
        assert split(form, wire[:body_at], assemble_max=len(wire))[1] == 0
        items, consumed, _ = split(form, wire[:-1], assemble_max=len(wire) - 1)
        assert [item[1] for item in items] == [fs.FRAME_METHOD, fs.FRAME_HEADER]
        assert consumed == body_at
        assert runs(split(form, wire, assemble_max=0)[0]) == [1]

    def test_a_crawling_message_is_looked_at_a_bounded_number_of_times(self, form: Any) -> None:
        """In body frames of one byte; the buffer never holds more than assemble_max of it."""
        wire = publish(b"x" * 2000, frame_max=9)
        buffer, largest, heard = b"", 0, Heard()
        for at in range(0, len(wire), 7):
            buffer += wire[at : at + 7]
            items, consumed, error = split(form, buffer, assemble_max=512)
            assert error is None
            heard.take(items)
            buffer = buffer[consumed:]
            largest = max(largest, len(buffer))
        assert largest < 512
        assert not buffer
        assert [kind for kind, _, _ in heard.frames] == [fs.FRAME_METHOD, fs.FRAME_HEADER, fs.FRAME_BODY]
        assert heard.frames[2][2] == b"x" * 2000


PROPERTIES: list[tuple[str, Any]] = [
    ("content_type", "text/plain"),
    ("content_encoding", "gzip"),
    ("headers", {"s": "x", "i": 1, "b": True, "n": None, "f": 1.5, "t": {"x": 1}, "a": [1, "b"], "x": bytearray(b"y")}),
    ("delivery_mode", 2),
    ("priority", 9),
    ("correlation_id", "c"),
    ("reply_to", "r"),
    ("expiration", "100"),
    ("message_id", "m"),
    ("timestamp", datetime(2025, 1, 1, tzinfo=UTC)),
    ("message_type", "t"),
    ("user_id", "u"),
    ("app_id", "a"),
]


@pytest.mark.parametrize("form", FORMS)
class TestLookAt:
    @given(st.sets(st.sampled_from(range(len(PROPERTIES)))))
    def test_any_selection_of_properties_is_read_as_pamqp_wrote_it(self, form: Any, chosen: set[int]) -> None:
        properties = {name: value for number, (name, value) in enumerate(PROPERTIES) if number in chosen}
        wire = publish(b"", **properties)
        ((_, _, _, _, content, _, *seen),) = split(form, wire)[0]
        look = form.look_at(walk(content)[0][0])
        assert [*look] == seen
        assert look.persistent is ("delivery_mode" in properties)
        assert look.priority == properties.get("priority", 0)
        assert look.expiration == (b"100" if "expiration" in properties else None)
        assert look.user_id == (b"u" if "user_id" in properties else None)
        assert look.look == (fs.LOOK_HEADERS if "headers" in properties else 0)

    @pytest.mark.parametrize(
        "props",
        [
            b"",
            b"\0",
            b"\0\0\0",
            b"\0\1",
            b"\0\2",
            b"\x80\0",
            b"\x80\0\2a",
            b"\x10\0",
            b"\0\x40\0\0\0\0\0\0\0",
            b"\x20\0\0\0\0",
            b"\x20\0\0\0\0\1",
            b"\x20\0\0\0\0\1\1",
            b"\x20\0\0\0\0\2\1a",
            b"\x20\0\0\0\0\3\1aI",
            b"\x20\0\0\0\0\3\1aQ",
            b"\x20\0\0\0\0\7\1aS\0\0\0\1",
            b"\x20\0\0\0\0\7\1aS\xff\xff\xff\xff",
            b"\x20\0\xff\xff\xff\xff\1aV",
        ],
    )
    def test_a_malformed_list_is_refused_and_its_message_handed_on(self, form: Any, props: bytes) -> None:
        with pytest.raises(fs.FrameError, match=f"malformed property list of {len(props)} bytes") as raised:
            form.look_at(props)
        assert raised.value.code == 502
        items = split(form, publish(b"1") + publish_raw(props, b"x"))[0]
        assert [item[0] for item in items] == [fs.PUBLISH] + [fs.FRAME] * 3

    @given(st.binary(max_size=40))
    def test_garbage_is_read_or_refused(self, form: Any, props: bytes) -> None:
        answers = []
        for one in FORMS:
            try:
                answers.append(one.values[0].look_at(props))
            except fs.FrameError as error:
                answers.append((error.code, error.text))
        assert all(answer == answers[0] for answer in answers)


def conversation(rng: random.Random) -> bytes:
    """What a client may send: whole and interleaved messages, acks, methods, small and larger bodies."""
    parts = []
    for _ in range(rng.randrange(1, 12)):
        channel = rng.randrange(1, 3)
        match rng.randrange(8):
            case 0:
                parts.append(ack(rng.randrange(6), channel=channel, multiple=rng.random() < 0.5))
            case 1:
                parts.extend(ack(tag, channel=channel) for tag in range(3, 6))
            case 2:
                parts.append(frame.marshal(commands.Basic.Get(queue="q"), channel))
            case 3:
                broken = publish(b"x" * 30, channel=channel)
                parts.append(broken[:METHOD_LEN] + frame.marshal(heartbeat.Heartbeat(), 0) + broken[METHOD_LEN:])
            case 4:
                parts.append(publish(rng.randbytes(rng.randrange(900)), channel=channel, frame_max=100))
            case 5:
                parts.append(publish_raw(rng.choice([b"\0\0", b"\0\1", b"\x10\0\2", b"\x80\0\1a"]), b"ab"))
            case _:
                headers = rng.choice([None, {"a": 1}, {"CC": ["x"]}])
                parts.append(publish(b"y" * rng.randrange(9), channel=channel, headers=headers) * rng.randrange(1, 5))
    return b"".join(parts)


def hear(form: Any, wire: bytes, cuts: list[int], assemble_max: int) -> tuple[list[Any], Any]:
    """All that a connection hears, and the error that ends it, when the bytes arrive in these pieces."""
    heard, buffer, error = Heard(), bytearray(), None
    for start, end in zip([0, *cuts], [*cuts, len(wire)], strict=True):
        buffer += wire[start:end]
        items, consumed, error = form.split(memoryview(buffer), 0, FRAME_MAX, 700, assemble_max)
        heard.take(items)
        del buffer[:consumed]
        if error:
            break
    return heard.frames, error


@pytest.mark.parametrize("form", FORMS)
@given(st.integers(0, 2**32), st.sampled_from([0, 60, 300, 65536]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whole_byte_by_byte_and_in_any_pieces_the_same_is_heard(form: Any, seed: int, assemble_max: int) -> None:
    rng = random.Random(seed)
    wire = bytearray(conversation(rng))
    for _ in range(rng.choice([0, 0, 1, 3])):
        wire[rng.randrange(len(wire))] = rng.randrange(256)
    pieces = sorted(rng.sample(range(len(wire)), rng.randrange(9)))
    whole = hear(form, bytes(wire), [], assemble_max)
    assert hear(form, bytes(wire), pieces, assemble_max) == whole
    assert hear(form, bytes(wire), list(range(1, len(wire))), assemble_max) == whole


@given(st.integers(0, 2**32), st.sampled_from([0, 60, 300, 65536]))
@settings(max_examples=300, deadline=None)
def test_both_forms_agree_on_mutated_bytes(seed: int, assemble_max: int) -> None:
    rng = random.Random(seed)
    wire = bytearray(conversation(rng))
    for _ in range(rng.randrange(6)):
        match rng.randrange(3):
            case 0:
                wire[rng.randrange(len(wire))] = rng.choice([0, 1, 2, 3, 60, 0xCE, 0xFF, rng.randrange(256)])
            case 1:
                at = rng.randrange(len(wire))
                del wire[at : min(at + rng.randrange(20), len(wire) - 1)]
            case 2:
                at = rng.randrange(len(wire))
                wire[at:at] = rng.randbytes(rng.randrange(8))
    answers = [form.values[0].split(wire, 0, FRAME_MAX, 700, assemble_max) for form in FORMS]
    assert all(answer == answers[0] for answer in answers)
