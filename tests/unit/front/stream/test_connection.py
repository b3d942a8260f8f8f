"""front/stream/connection.py: what a scenario does not show, above all limits. tests/scenarios/stream_protocol has the rest."""

from __future__ import annotations

import struct

import pytest

from broker.errors import ConnectionForced, InternalError
from broker.pending import Pending
from front.sockets.peer import Peer
from front.stream.phases import ConnectionPhase
from front.stream.stream_flow import KEPT_BYTES_MAX, UNSENT_BYTES_MAX
from front.stream.stream_intake import STEPS_PER_TURN
from front.stream.stream_terms import StreamLimits
from tests.unit.front.stream.client import HANDSHAKE, NOW, PEER, StreamClient
from tests.unit.front.stream.fakes import TOKEN, FakeStream, entries
from wire.stream.command_fields import OffsetSpec
from wire.stream.command_frames import encode_frame
from wire.stream.command_keys import CommandKey, OffsetKind, ResponseCode
from wire.stream.publish_frame import pack_ids, unpack_ids
from wire.stream.stream_commands import (
    CloseRequest,
    Command,
    CreateStreamRequest,
    CreditCommand,
    DeclarePublisherRequest,
    DeleteStreamRequest,
    DeliverFrame,
    HeartbeatCommand,
    MetadataRequest,
    OpenRequest,
    PublishConfirm,
    PublishError,
    PublisherSequenceRequest,
    PublishFrame,
    QueryOffsetRequest,
    QueryOffsetResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
    StandardResponse,
    SubscribeRequest,
    Tune,
)

FIRST = OffsetSpec(OffsetKind.FIRST)


def publishing(client: StreamClient) -> StreamClient:
    """Connected, with publisher 0 of stream s."""
    client.broker.streams["s"] = FakeStream()
    client.connect()
    client.say(DeclarePublisherRequest(1, 0, "", "s"))
    return client


def published(count: int, first: int = 1, body: bytes = b"x") -> PublishFrame:
    return PublishFrame(1, 0, count, entries(*[(first + place, body) for place in range(count)]))


def codes(said: list[Command]) -> list[ResponseCode]:
    return [ResponseCode(one.code) for one in said if isinstance(one, StandardResponse)]


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 100])
def test_frames_may_come_in_pieces_of_any_size(piece: int) -> None:
    client = publishing(StreamClient(piece=piece))
    said = client.say(published(5), HeartbeatCommand(), published(3, first=6), QueryOffsetRequest(9, "app", "s"))
    confirmed = [id_ for one in said if isinstance(one, PublishConfirm) for id_ in unpack_ids(one.ids)]
    assert confirmed == [1, 2, 3, 4, 5, 6, 7, 8]
    assert client.core.pressure.kept_bytes == 0


def test_what_was_given_is_not_kept() -> None:
    client = publishing(StreamClient())
    data = bytearray(encode_frame(published(2)))
    client.core.receive_data(memoryview(data)[:20], NOW)
    client.core.receive_data(memoryview(data)[20:], NOW)
    data[:] = bytes(len(data))
    assert client.take() == [PublishConfirm(0, pack_ids([1, 2]))]


def test_a_certificate_logs_in_by_itself() -> None:
    client = StreamClient(peer=Peer("1", "a", "127.0.0.1", 1, True, tls=True, tls_user="ann"))
    client.say(HANDSHAKE[0])
    assert client.say(SaslHandshakeRequest(2)) == [SaslHandshakeResponse(2, 1, ("PLAIN", "EXTERNAL"))]
    said = client.say(SaslAuthenticateRequest(3, "EXTERNAL", b""))
    assert said == [SaslAuthenticateResponse(3, 1), Tune(1_048_576, 60)]
    assert client.core.user == "ann"


def test_nobody_gets_in_by_a_certificate_without_one() -> None:
    client = StreamClient(peer=PEER)
    client.say(*HANDSHAKE[:2])
    said = client.say(SaslAuthenticateRequest(3, "EXTERNAL", b""))
    assert said == [SaslAuthenticateResponse(3, ResponseCode.SASL_MECHANISM_UNSUPPORTED)]
    assert client.core.state is ConnectionPhase.CLOSED


def bearer() -> StreamClient:
    client = StreamClient()
    client.say(
        *HANDSHAKE[:2], SaslAuthenticateRequest(3, "PLAIN", b"\x00any name\x00" + TOKEN + b"ann"), *HANDSHAKE[3:]
    )
    assert client.core.state is ConnectionPhase.RUNNING
    return client


def test_who_bears_a_token_is_whom_it_names_and_renews_it() -> None:
    client = bearer()
    first = client.core.login
    again = SaslAuthenticateRequest(9, "PLAIN", b"\x00another name\x00" + TOKEN + b"ann")
    assert client.say(again) == [SaslAuthenticateResponse(9, ResponseCode.OK)]
    assert client.core.user == "ann" and client.core.login is not first


def test_a_token_of_somebody_else_renews_nothing() -> None:
    client = bearer()
    first = client.core.login
    again = SaslAuthenticateRequest(9, "PLAIN", b"\x00ann\x00" + TOKEN + b"eve")
    assert client.say(again) == [SaslAuthenticateResponse(9, ResponseCode.CANNOT_CHANGE_USER)]
    assert client.core.login is first and client.core.state is ConnectionPhase.RUNNING


@pytest.mark.parametrize(
    ("offered", "asked", "agreed"), [(1000, 0, 1000), (1000, 500, 500), (500, 1000, 500), (0, 700, 700), (0, 0, 0)]
)
def test_the_smaller_frames_are_agreed_on(offered: int, asked: int, agreed: int) -> None:
    client = StreamClient(limits=StreamLimits(frame_max=offered))
    client.say(*HANDSHAKE[:3], Tune(asked, 60), HANDSHAKE[4])
    assert client.core.state is ConnectionPhase.RUNNING
    assert client.core.frame_max == agreed


def test_a_connection_has_256_publishers_and_subscriptions() -> None:
    client = publishing(StreamClient())
    declared = client.say(*[DeclarePublisherRequest(number, number, "", "s") for number in range(1, 256)])
    assert codes(declared) == [ResponseCode.OK] * 255
    assert codes(client.say(DeclarePublisherRequest(1, 7, "", "missing"))) == [ResponseCode.PRECONDITION_FAILED]
    subscribed = client.say(*[SubscribeRequest(number, number, "s", FIRST, 1) for number in range(256)])
    assert codes(subscribed) == [ResponseCode.OK] * 256
    assert codes(client.say(SubscribeRequest(1, 7, "missing", FIRST, 1))) == [ResponseCode.PRECONDITION_FAILED]
    assert client.core.statistics()["publishers"] == client.core.statistics()["subscriptions"] == 256


@pytest.mark.parametrize(("size", "code"), [(255, ResponseCode.OK), (256, ResponseCode.PRECONDITION_FAILED)])
def test_references_and_names_have_255_bytes(size: int, code: ResponseCode) -> None:
    client = publishing(StreamClient())
    assert codes(client.say(DeclarePublisherRequest(1, 1, "r" * size, "s"))) == [code]
    assert codes(client.say(SubscribeRequest(2, 1, "s", FIRST, 1, {"name": "é" * (size // 2) + "n" * (size % 2)}))) == [
        code
    ]


class TestTurns:
    """One read may bring more than the loop should stand for; other clients have their turn in between."""

    def handled_in_each_round(self, client: StreamClient, data: bytes) -> list[int]:
        """How many calls each round of the loop made, until there is no more."""
        calls, rounds = client.broker.calls, []
        client.broker.confirms_later = True
        before = len(calls)
        client.core.receive_data(data, NOW)
        while True:
            assert not client.core.proceed(NOW), "what rests goes on in the next round"
            rounds.append(len(calls) - before)
            before = len(calls)
            if not client.outside.next_round:
                return rounds
            client.outside.next_round.pop()()
            client.core.proceed(NOW)

    @pytest.mark.parametrize("version", [1, 2])
    def test_a_frame_with_a_run_for_each_message_takes_many(self, version: int) -> None:
        client = publishing(StreamClient())
        value = b"" if version == 1 else b"\xff\xff"
        entries = [struct.pack(">Q", 5000 - place) + value + bytes(4) for place in range(5000)]
        rounds = self.handled_in_each_round(client, encode_frame(PublishFrame(version, 0, 5000, b"".join(entries))))
        assert max(rounds) <= STEPS_PER_TURN
        assert sum(rounds) == 5000
        assert client.core.pressure.kept_bytes == 0

    def test_many_small_frames_take_many(self) -> None:
        client = publishing(StreamClient())
        client.say(DeclarePublisherRequest(1, 1, "", "s"))
        frames = [encode_frame(published(1)._replace(publisher=number % 2)) for number in range(2000)]
        rounds = self.handled_in_each_round(client, b"".join(frames))
        assert max(rounds) <= 2 * STEPS_PER_TURN
        assert sum(rounds) == 2000

    def test_a_frame_behind_one_that_is_worked_off_waits(self) -> None:
        client = publishing(StreamClient())
        entries = [struct.pack(">Q", 600 - place) + bytes(4) for place in range(600)]
        said = client.say(PublishFrame(1, 0, 600, b"".join(entries)), QueryOffsetRequest(9, "r", "s"))
        names = [call[0] for call in client.broker.calls]
        assert names.index("query_offset") == len(names) - 1
        assert names.count("publish") == 600
        assert any(isinstance(one, QueryOffsetResponse) for one in said)

    def test_what_is_left_of_a_frame_is_dropped_with_its_client(self) -> None:
        client = publishing(StreamClient())
        entries = [struct.pack(">Q", 600 - place) + bytes(4) for place in range(600)]
        client.core.receive_data(encode_frame(PublishFrame(1, 0, 600, b"".join(entries))), NOW)
        client.core.close_for_broker(ConnectionForced("an operator wants it"))
        assert not any(isinstance(one, CloseRequest) for one in client.take()), "it would not connect again"
        assert client.core.state is ConnectionPhase.CLOSED
        assert [call[0] for call in client.broker.calls].count("publish") == STEPS_PER_TURN - 1  # and the frame itself
        assert client.core.pressure.kept_bytes == 0


class TestConfirms:
    def test_a_confirm_is_not_larger_than_a_frame_may_be(self) -> None:
        client = publishing(StreamClient(limits=StreamLimits(frame_max=1000)))
        client.broker.confirms_later = True
        for first in range(1, 400, 20):
            assert client.say(published(20, first=first)) == []
        client.broker.confirms_later = False
        said = client.take()
        assert [len(encode_frame(one)) <= 1004 for one in said] == [True, True, True, True]
        assert [id_ for one in said if isinstance(one, PublishConfirm) for id_ in unpack_ids(one.ids)] == list(
            range(1, 401)
        )

    def test_a_refusal_is_not_larger_than_a_frame_may_be(self) -> None:
        client = publishing(StreamClient(limits=StreamLimits(frame_max=2000)))
        client.broker.confirms_later = True
        for first in range(1, 400, 100):
            client.say(published(100, first=first))
        client.broker.sessions[0].refuse_unconfirmed(0, InternalError("lost"))
        said = client.take()
        assert [len(encode_frame(one)) <= 2004 for one in said] == [True, True, True]
        refused = [id_ for one in said if isinstance(one, PublishError) for id_, code in one.refusals if code == 15]
        assert refused == list(range(1, 401))

    def test_all_of_a_turn_are_told_at_once(self) -> None:
        client = publishing(StreamClient())
        said = client.say(*[published(1, first=first) for first in range(1, 101)])
        assert said == [PublishConfirm(0, pack_ids(list(range(1, 101))))]

    def test_they_wake_whoever_writes(self) -> None:
        client = publishing(StreamClient())
        client.broker.confirms_later = True
        client.say(published(1))
        woken = client.outside.woken
        client.core.confirm(0, client.broker.sessions[0].unconfirmed.pop(0))
        assert client.outside.woken == woken + 1
        assert client.core.pressure.unsent_bytes > 0

    def test_a_confirm_for_nothing_is_a_fault_of_ours(self) -> None:
        client = publishing(StreamClient())
        with pytest.raises(AssertionError):
            client.core.confirm(0, pack_ids([1]))
        with pytest.raises(AssertionError):
            client.core.confirm(1, pack_ids([1]))


class TestBackpressure:
    def test_too_many_outstanding_messages_stop_reading_until_a_quarter_is_confirmed(self) -> None:
        client = publishing(StreamClient(limits=StreamLimits(outstanding_messages_max=100)))
        client.broker.confirms_later = True
        client.say(published(99))
        assert client.core.pressure.reads
        client.say(published(1, first=100))
        assert not client.core.pressure.reads
        client.core.confirm(0, pack_ids(list(range(1, 26))))
        assert not client.core.pressure.reads
        client.core.confirm(0, pack_ids([26]))
        assert client.core.pressure.reads

    def test_outstanding_bytes_count_too(self) -> None:
        client = publishing(StreamClient(limits=StreamLimits(outstanding_bytes_max=10_000)))
        client.broker.confirms_later = True
        client.say(published(10, body=bytes(996)))
        assert not client.core.pressure.reads
        client.core.confirm(0, pack_ids([1, 2, 3]))
        assert client.core.pressure.reads
        assert client.core.pressure.outstanding_bytes == 7_000

    def test_0_is_no_limit(self) -> None:
        client = publishing(StreamClient(limits=StreamLimits(outstanding_messages_max=0, outstanding_bytes_max=0)))
        client.broker.confirms_later = True
        client.say(published(1000))
        assert client.core.pressure.reads

    def test_a_publisher_that_is_too_fast_is_not_read_from_until_its_time_has_come(self) -> None:
        client = publishing(StreamClient())
        session = client.broker.sessions[0]
        session.holds_publishers = first = Pending[None]()
        client.say(published(1))
        session.holds_publishers = second = Pending[None]()
        client.say(published(1, first=2))
        assert not client.core.pressure.reads
        second.resolve(None)
        assert not client.core.pressure.reads
        first.resolve(None)
        assert client.core.pressure.reads

    def test_what_a_stream_that_is_gone_owes_does_not_count(self) -> None:
        client = publishing(StreamClient(limits=StreamLimits(outstanding_messages_max=10)))
        client.broker.confirms_later = True
        client.say(published(10))
        assert not client.core.pressure.reads
        client.broker.remove("s")
        assert client.core.pressure.reads
        assert client.core.pressure.outstanding_messages == client.core.pressure.outstanding_bytes == 0

    def test_a_full_write_buffer_stops_deliveries_until_there_is_room(self) -> None:
        client = publishing(StreamClient())
        client.say(SubscribeRequest(1, 0, "s", FIRST, 100))
        client.core.pressure.set_transport_writable(False)
        assert not any(isinstance(one, DeliverFrame) for one in client.say(published(1)))
        client.broker.calls.clear()
        client.core.pressure.set_transport_writable(True)
        assert any(isinstance(one, DeliverFrame) for one in client.take())
        assert ("resume",) in client.broker.calls

    def test_a_client_that_reads_no_answers_is_not_served(self) -> None:
        client = publishing(StreamClient())
        client.core.pressure.unsent_bytes = UNSENT_BYTES_MAX + 1
        client.broker.calls.clear()
        client.core.receive_data(encode_frame(CreateStreamRequest(1, "t", {})), NOW)
        assert not client.core.pressure.reads
        assert not client.core.proceed(NOW)
        assert client.broker.calls == []
        client.core.data_to_send()
        assert codes(client.take()) == [ResponseCode.OK]

    def test_input_behind_a_pending_answer_is_bounded(self) -> None:
        client = publishing(StreamClient())
        client.broker.answers_later = True
        client.say(CreateStreamRequest(1, "t", {}))
        frame = encode_frame(published(1, body=bytes(100_000)))
        given = 0
        while client.core.pressure.reads:
            client.core.receive_data(frame, NOW)
            given += len(frame)
        assert KEPT_BYTES_MAX < given <= KEPT_BYTES_MAX + len(frame)
        client.broker.answer_all()
        client.take()
        assert client.core.pressure.reads
        assert client.core.pressure.kept_bytes == 0

    @pytest.mark.parametrize("frame_max", [KEPT_BYTES_MAX, 4 * KEPT_BYTES_MAX, 0])
    @pytest.mark.parametrize("late", [1, 3, 5])
    def test_the_rest_of_the_largest_frame_is_read(self, frame_max: int, late: int) -> None:
        """What was kept of it came above the bound, so nothing more was read, not even its last byte."""
        client = publishing(StreamClient(limits=StreamLimits(frame_max=frame_max)))
        client.core.frame_max = frame_max  # the client wants what is offered
        overhead = len(encode_frame(published(1, body=b""))) - 4
        frame = encode_frame(published(1, body=bytes((frame_max or 3 * KEPT_BYTES_MAX) - overhead)))
        assert client.give(frame[:-late]) == []
        assert client.core.pressure.reads
        assert [type(one) for one in client.give(frame[-late:])] == [PublishConfirm]

    def test_input_behind_a_login_is_bounded(self) -> None:
        client = StreamClient()
        client.broker.answers_later = True
        client.say(*HANDSHAKE[:3])
        client.give(bytes(8000))
        assert client.core.state is ConnectionPhase.AUTHENTICATING
        said = client.give(bytes(1000))
        assert said == [CloseRequest(1, ResponseCode.FRAME_TOO_LARGE, "frame too large")]
        client.broker.answer_all()
        assert client.take() == []
        assert client.core.pressure.kept_bytes == 0


class TestTheEnd:
    def test_a_lost_socket_leaves_nothing_behind(self) -> None:
        client = publishing(StreamClient())
        client.core.connection_lost(NOW)
        assert (client.broker.connections, client.broker.sessions) == ([], [])
        assert client.core.close_reason == "client unexpectedly closed TCP connection"
        assert client.outside.armed == 0
        client.core.receive_data(encode_frame(HeartbeatCommand()), NOW)
        assert client.take() == []

    def test_an_answer_that_comes_too_late_is_for_nobody(self) -> None:
        client = publishing(StreamClient())
        client.broker.answers_later = True
        client.say(SubscribeRequest(1, 0, "s", FIRST, 1))
        client.core.connection_lost(NOW)
        client.broker.answer_all()
        assert client.take() == []

    def test_a_login_that_is_answered_too_late_is_for_nobody(self) -> None:
        client = StreamClient()
        client.broker.answers_later = True
        client.say(*HANDSHAKE[:3])
        client.elapse()
        assert client.core.state is ConnectionPhase.CLOSED
        client.broker.answer_all()
        assert client.take() == []
        assert client.core.user == ""

    def test_a_broken_frame_ends_with_the_answer_to_close(self) -> None:
        client = publishing(StreamClient())
        client.broker.calls.clear()
        (close,) = client.give(struct.pack(">IHH", 4, 99, 1) + encode_frame(CreateStreamRequest(1, "t", {})))
        assert isinstance(close, CloseRequest)
        assert client.broker.calls == []
        client.say(StandardResponse(CommandKey.CLOSE, close.correlation, ResponseCode.OK))
        assert client.core.state is ConnectionPhase.CLOSED


class TestHeartbeats:
    def test_a_publisher_that_is_held_back_is_not_silent(self) -> None:
        client = publishing(StreamClient())
        client.core.set_blocked("disk")
        for _ in range(20):
            client.elapse()
        assert client.core.state is ConnectionPhase.RUNNING
        client.core.set_blocked(None)
        for _ in range(20):
            client.elapse()
        assert client.core.state is ConnectionPhase.CLOSED

    def test_a_held_publisher_that_is_told_to_close_is_read_from(self) -> None:
        client = publishing(StreamClient())
        client.core.set_blocked("disk")
        assert not client.core.pressure.reads
        client.core.crashed()
        (close,) = client.take()
        assert isinstance(close, CloseRequest)
        assert client.core.pressure.reads

    def test_deadlines_of_updates_and_heartbeats_do_not_replace_each_other(self) -> None:
        client = publishing(StreamClient())
        properties = {"single-active-consumer": "true", "name": "app"}
        client.say(SubscribeRequest(1, 0, "s", FIRST, 1, properties))
        before = client.outside.armed
        client.core.activate(0, True)
        assert client.outside.armed == pytest.approx(before)
        said: list[Command] = []
        while not any(isinstance(one, CloseRequest) for one in said):
            client.say(HeartbeatCommand())
            said = client.elapse()
        assert client.outside.seconds == pytest.approx(160)


def test_a_request_without_a_session_of_its_own_is_counted_as_such() -> None:
    """Figures of a connection that has no virtual host yet."""
    client = StreamClient()
    client.say(HANDSHAKE[0])
    figures = client.core.statistics()
    assert (figures["publishers"], figures["subscriptions"], figures["state"]) == (0, 0, "expecting a handshake")
    assert figures["bytes_in"] > 0
    assert figures["bytes_out"] > 0


def test_the_broker_knows_what_a_client_says_of_itself() -> None:
    client = publishing(StreamClient())
    (connection,) = client.broker.connections
    assert connection.client_properties == {"product": "test"}
    assert (connection.protocol, connection.user, connection.vhost) == ("stream", "guest", "/")


@pytest.mark.parametrize(
    "request_",
    [
        PublisherSequenceRequest(7, "r", "missing"),
        DeleteStreamRequest(7, "missing"),
        MetadataRequest(7, ("missing",)),
        CreditCommand(9, 1),
        OpenRequest(7, "/"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_any_frame_is_answered_or_ends_the_connection(request_: Command) -> None:
    client = publishing(StreamClient())
    assert len(client.say(request_)) == 1
