"""wire/stream/command_frames.py: frames come back as they were, and what is none is refused with one error."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.wire.stream.command_examples import COMMANDS, commands_of
from wire.stream.command_fields import ELEMENTS_MAX, NO_BROKER, BadStreamFrame, LocatedStream, OffsetSpec, StreamBroker
from wire.stream.command_frames import (
    decode_frame,
    deliver_head,
    encode_frame,
    frame_end,
    publish_confirm,
    publish_error,
)
from wire.stream.command_keys import CLIENT_VERSIONS, RESPONSE_BIT, VERSIONS, CommandKey, OffsetKind, ResponseCode
from wire.stream.publish_frame import pack_ids
from wire.stream.stream_commands import (
    ALL_LAYOUTS,
    Command,
    CommandLayout,
    ConsumerUpdateResponse,
    CreateStreamRequest,
    CreditError,
    DeclarePublisherRequest,
    DeliverFrame,
    HeartbeatCommand,
    MetadataRequest,
    MetadataResponse,
    MetadataUpdate,
    OpenResponse,
    PartitionsRequest,
    PeerPropertiesRequest,
    PublishConfirm,
    PublishError,
    PublishFrame,
    QueryOffsetResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    StandardResponse,
    StreamsResponse,
    StreamStatsResponse,
    SubscribeRequest,
    Tune,
)

# Each with its bytes, spaces between the fields; the size is left out.
DRAWN: list[tuple[Command, str]] = [
    (DeclarePublisherRequest(7, 3, "ref", "s"), "0001 0001 00000007 03 0003726566 000173"),
    (StandardResponse(1, 7, 17), "8001 0001 00000007 0011"),
    (PublishFrame(1, 3, 1, b"rest"), "0002 0001 03 00000001 72657374"),
    (PublishFrame(2, 3, 1, b"rest"), "0002 0002 03 00000001 72657374"),
    (PublishConfirm(3, pack_ids([1, 2])), "0003 0001 03 00000002 0000000000000001 0000000000000002"),
    (PublishError(3, ((1, 18),)), "0004 0001 03 00000001 0000000000000001 0012"),
    (SubscribeRequest(7, 0, "s", OffsetSpec(OffsetKind.FIRST), 10), "0007 0001 00000007 00 000173 0001 000a"),
    (
        SubscribeRequest(7, 0, "s", OffsetSpec(OffsetKind.OFFSET, 5), 10, {"a": "b"}),
        "0007 0001 00000007 00 000173 0004 0000000000000005 000a 00000001 000161 000162",
    ),
    (DeliverFrame(1, 9, None, b"chunk"), "0008 0001 09 6368756e6b"),
    (DeliverFrame(2, 9, 4, b"chunk"), "0008 0002 09 0000000000000004 6368756e6b"),
    (CreditError(4, 9), "8009 0001 0004 09"),
    (QueryOffsetResponse(7, 19, 0), "800b 0001 00000007 0013 0000000000000000"),
    (CreateStreamRequest(7, "s", {"max-age": "1D"}), "000d 0001 00000007 000173 00000001 00076d61782d616765 00023144"),
    (MetadataRequest(7, ("a", "b")), "000f 0001 00000007 00000002 000161 000162"),
    (
        MetadataResponse(
            7, (StreamBroker(0, "h", 5552),), (LocatedStream("a", 1, 0, (0,)), LocatedStream("b", 2, NO_BROKER, ()))
        ),
        "800f 0001 00000007 00000001 0000 000168 000015b0 00000002 000161 0001 0000 00000001 0000"
        " 000162 0002 ffff 00000000",
    ),
    (MetadataUpdate(6, "s"), "0010 0001 0006 000173"),
    (PeerPropertiesRequest(7, {}), "0011 0001 00000007 00000000"),
    (SaslAuthenticateRequest(7, "PLAIN", b"\0u\0p"), "0013 0001 00000007 0005504c41494e 00000004 00750070"),
    (SaslAuthenticateResponse(7, 1), "8013 0001 00000007 0001"),
    (SaslAuthenticateResponse(7, 10, b"ab"), "8013 0001 00000007 000a 0002 6162"),
    (Tune(1_048_576, 60), "0014 0001 00100000 0000003c"),
    (OpenResponse(7, 1), "8015 0001 00000007 0001"),
    (OpenResponse(7, 1, {"a": "b"}), "8015 0001 00000007 0001 00000001 000161 000162"),
    (HeartbeatCommand(), "0017 0001"),
    (PartitionsRequest(7, "s"), "0019 0001 00000007 000173"),
    (StreamsResponse(25, 7, 2), "8019 0001 00000007 0002 00000000"),
    (ConsumerUpdateResponse(7, 1), "801a 0001 00000007 0001 0000"),
    (StreamStatsResponse(7, 1, {"a": -1}), "801c 0001 00000007 0001 00000001 000161 ffffffffffffffff"),
]

# What is wrong, and the frame without its size.
REFUSED = {
    "nothing": "",
    "half a head": "0001",
    "unknown key": "0063 0001",
    "key 0": "0000 0001",
    "unknown version": "0001 0002 00000007 03 0000 000173",
    "response to what has none": "8017 0001",
    "no correlation id": "0011 0001 0000",
    "bytes left over": "0017 0001 00",
    "string longer than the frame": "0019 0001 00000007 0005 6162",
    "string of negative size": "0019 0001 00000007 8000 6162",
    "string that is not UTF-8": "0019 0001 00000007 0001 ff",
    "bytes longer than the frame": "0013 0001 00000007 0000 00000009 6162",
    "array longer than the frame": "000f 0001 00000007 7fffffff 000161",
    "map longer than the frame": "0011 0001 00000007 00000002 000161 000162",
    "map with half a pair": "0011 0001 00000007 00000001 000161",
    "offset of unknown kind": "0007 0001 00000007 00 000173 0006 000a",
    "offset without value": "0007 0001 00000007 00 000173 0004 0000000000",
    "more ids than bytes": "0003 0001 03 ffffffff 0000000000000001",
    "response that lacks what OK promises": "8005 0001 00000007 0001",
}


def hexed(text: str) -> bytes:
    return bytes.fromhex(text)


@pytest.mark.parametrize(("command", "digits"), DRAWN, ids=[type(command).__name__ for command, _ in DRAWN])
def test_a_command_has_the_bytes_that_the_protocol_says(command: Command, digits: str) -> None:
    frame = hexed(digits)
    assert encode_frame(command) == struct.pack(">I", len(frame)) + frame
    assert decode_frame(frame) == command


@pytest.mark.parametrize("layout", ALL_LAYOUTS, ids=lambda one: f"{one.command.__name__}-{one.key:#06x}-{one.version}")
def test_every_command_comes_back(layout: CommandLayout) -> None:
    @settings(max_examples=10)
    @given(commands_of(layout))
    def comes_back(command: Command) -> None:
        frame = encode_frame(command)
        assert frame_end(frame, 0, 0) == len(frame)
        decoded = decode_frame(frame[4:])
        assert decoded == command
        assert type(decoded) is type(command)

    comes_back()


@settings(max_examples=100)
@given(COMMANDS)
def test_each_prefix_is_a_command_or_refused(command: Command) -> None:
    frame = encode_frame(command)[4:]
    for end in range(len(frame)):
        with contextlib.suppress(BadStreamFrame):
            decode_frame(frame[:end])


@settings(max_examples=200)
@given(st.sampled_from(ALL_LAYOUTS), st.binary(max_size=60))
def test_random_bytes_are_a_command_or_refused(layout: CommandLayout, data: bytes) -> None:
    with contextlib.suppress(BadStreamFrame):
        decode_frame(struct.pack(">HH", layout.key, layout.version) + data)


@settings(max_examples=200)
@given(COMMANDS, st.data())
def test_a_frame_with_a_changed_byte_is_a_command_or_refused(command: Command, data: st.DataObject) -> None:
    frame = bytearray(encode_frame(command)[4:])
    frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BadStreamFrame):
        decode_frame(bytes(frame))


@pytest.mark.parametrize("digits", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_frame_is_refused(digits: str) -> None:
    with pytest.raises(BadStreamFrame) as refused:
        decode_frame(hexed(digits))
    assert refused.value.code == ResponseCode.UNKNOWN_FRAME


def test_null_is_read_as_empty() -> None:
    assert decode_frame(hexed("0019 0001 00000007 ffff")) == PartitionsRequest(7, "")
    assert decode_frame(hexed("0013 0001 00000007 ffff ffffffff")) == SaslAuthenticateRequest(7, "", b"")
    assert decode_frame(hexed("000f 0001 00000007 ffffffff")) == MetadataRequest(7, ())


def test_an_array_has_a_limit_whatever_its_elements_cost() -> None:
    names = b"\0\0" * (ELEMENTS_MAX + 1)
    with pytest.raises(BadStreamFrame):
        decode_frame(struct.pack(">HHII", 15, 1, 7, ELEMENTS_MAX + 1) + names)
    with pytest.raises(BadStreamFrame):
        encode_frame(MetadataRequest(7, ("",) * (ELEMENTS_MAX + 1)))


def test_a_response_with_an_error_may_end_behind_its_code() -> None:
    assert decode_frame(hexed("800b 0001 00000007 0013")) == QueryOffsetResponse(7, 19)
    assert decode_frame(hexed("801c 0001 00000007 0002")) == StreamStatsResponse(7, 2)


def test_what_follows_the_offset_of_a_consumer_update_is_not_looked_at() -> None:
    assert decode_frame(hexed("801a 0001 00000007 0001 0003 0000000000000000")) == ConsumerUpdateResponse(
        7, 1, OffsetSpec(OffsetKind.NEXT)
    )


def test_tune_is_read_with_the_bit_of_a_response_too() -> None:
    assert decode_frame(hexed("8014 0001 00100000 0000003c")) == Tune(1_048_576, 60)


@pytest.mark.parametrize(
    "command",
    [
        DeclarePublisherRequest(7, 256, "", "s"),
        DeclarePublisherRequest(-1, 0, "", "s"),
        DeclarePublisherRequest(7, 0, "", "s" * 2**15),
        DeclarePublisherRequest(7, 0, "", "\ud800"),
        StreamStatsResponse(7, 1, {"a": 2**63}),
    ],
)
def test_a_value_without_a_place_is_refused(command: Command) -> None:
    with pytest.raises(BadStreamFrame):
        encode_frame(command)


class TestWhereAFrameEnds:
    FRAME = encode_frame(HeartbeatCommand())

    def test_an_incomplete_frame_has_no_end_yet(self) -> None:
        assert [frame_end(self.FRAME[:size], 0, 0) for size in range(len(self.FRAME))] == [None] * len(self.FRAME)

    def test_frames_follow_each_other(self) -> None:
        assert frame_end(self.FRAME * 2, len(self.FRAME), 0) == 2 * len(self.FRAME)
        assert frame_end(memoryview(self.FRAME * 2), 0, 4) == len(self.FRAME)

    def test_a_frame_that_is_too_large_is_refused_by_its_size_alone(self) -> None:
        with pytest.raises(BadStreamFrame) as refused:
            frame_end(struct.pack(">I", 8193), 0, 8192)
        assert refused.value.code == ResponseCode.FRAME_TOO_LARGE

    @pytest.mark.parametrize("size", range(4))
    def test_a_frame_has_a_head(self, size: int) -> None:
        with pytest.raises(BadStreamFrame):
            frame_end(struct.pack(">I", size), 0, 0)


@pytest.mark.parametrize("version", [1, 2])
def test_the_head_of_a_delivery_is_that_of_its_frame(version: int) -> None:
    whole = encode_frame(DeliverFrame(version, 3, 77 if version == 2 else None, b"chunk"))
    assert deliver_head(version, 3, 77, 5) + b"chunk" == whole
    assert len(deliver_head(version, 3, 77, 5)) == (9 if version == 1 else 17)


def test_the_versions_that_are_announced_are_those_that_can_be_read() -> None:
    """Nobody negotiates Tune, PeerProperties and what else comes before the exchange of versions."""
    announced = {
        (int(key), version)
        for key, (lowest, highest) in {**VERSIONS, **CLIENT_VERSIONS}.items()
        for version in range(lowest, highest + 1)
    }
    before = {17, 18, 19, 20, 21, 27}
    assert announced == {
        (one.key, one.version) for one in ALL_LAYOUTS if not one.key & RESPONSE_BIT and one.key not in before
    }
    assert list(VERSIONS) == sorted(VERSIONS) and set(VERSIONS).isdisjoint(CLIENT_VERSIONS)


def test_every_key_has_a_layout() -> None:
    assert {one.key & ~RESPONSE_BIT for one in ALL_LAYOUTS} == set(CommandKey)


def test_many_confirms_are_a_frame_like_any_other() -> None:
    ids = pack_ids([0, 1, 2**64 - 1])
    assert publish_confirm(7, ids) == encode_frame(PublishConfirm(7, ids))
    assert publish_confirm(0, b"") == encode_frame(PublishConfirm(0, b""))


def test_many_refusals_with_one_code_are_a_frame_like_any_other() -> None:
    ids = [0, 1, 2**64 - 1, 0x0102030405060708]
    frame = publish_error(7, pack_ids(ids), 0x1234)
    assert frame == encode_frame(PublishError(7, tuple((id_, 0x1234) for id_ in ids)))
    assert publish_error(0, b"", 1) == encode_frame(PublishError(0, ()))
