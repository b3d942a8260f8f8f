"""The handshake: greeting, login, tuning, vhost; and update-secret, asked later on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pamqp import commands

from broker.errors import NotAllowed, ResourceExhausted
from front.amqp.handshake import LOGIN_TIMEOUT_S
from front.amqp.states import ConnectionState
from front.sockets.peer import Peer
from front.sockets.plain_login import Credentials
from tests.unit.front.amqp.client import (
    CAPABILITIES,
    IDENTITY,
    NOW,
    PLAIN,
    PROTOCOL_HEADER,
    Client,
    close_of,
    names,
    publish,
    raw_frame,
    start_ok,
)
from tests.unit.front.amqp.fakes import SECRET, TOKEN
from wire.amqp import spec


class TestHandshake:
    @pytest.mark.parametrize("greeting", [PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09"])
    def test_start_names_the_server_its_mechanisms_and_capabilities(self, greeting: bytes) -> None:
        said = Client().give(greeting)
        assert names(said) == ["Connection.Start"]
        start = said[0][1]
        assert (start.version_major, start.version_minor) == (0, 9)
        assert start.mechanisms.split() == ["PLAIN", "AMQPLAIN"]
        assert start.locales == "en_US"
        assert list(start.server_properties) == [
            "capabilities", "cluster_name", "information", "platform", "product", "product_name", "product_version",
            "version",
        ]  # fmt: skip
        assert start.server_properties["product"] == start.server_properties["product_name"] == "Leveret"
        assert start.server_properties["version"] == start.server_properties["product_version"] == IDENTITY.version
        assert set(start.server_properties["capabilities"].values()) == {True}
        assert len(start.server_properties["capabilities"]) == 9

    def test_start_announces_the_product_that_clients_know_and_says_who_it_is_beside_it(self) -> None:
        identity = replace(IDENTITY, announced_product="RabbitMQ", announced_version="3.13.7")
        properties = Client(identity=identity).give(PROTOCOL_HEADER)[0][1].server_properties
        assert (properties["product"], properties["version"]) == ("RabbitMQ", "3.13.7")
        assert (properties["product_name"], properties["product_version"]) == ("Leveret", IDENTITY.version)

    @pytest.mark.parametrize(
        "greeting",
        [b"AMQP\x00\x00\x09\x00", b"AMQP\x00\x00\x08\x00", b"AMQP\x03\x01\x00\x00", b"AMQP\x00\x01\x00\x00",
         b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"],
    )  # fmt: skip
    @pytest.mark.parametrize("chunk", [0, 1])
    def test_another_protocol_is_answered_with_ours_and_closed(self, greeting: bytes, chunk: int) -> None:
        client = Client(chunk=chunk)
        assert client.give(greeting) == [(0, PROTOCOL_HEADER)]
        assert client.core.state is ConnectionState.CLOSED

    def test_tune_offers_the_limits_and_open_is_answered(self) -> None:
        client = Client()
        client.give(PROTOCOL_HEADER)
        (tune,) = [value for _, value in client.say(0, start_ok())]
        assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (2047, 131072, 60)
        assert client.say(0, commands.Connection.TuneOk(100, 8192, 0)) == []
        assert names(client.say(0, commands.Connection.Open("/"))) == ["Connection.OpenOk"]
        assert client.core.state is ConnectionState.RUNNING
        assert (client.core.channel_max, client.core.frame_max, client.core.heartbeat.interval_s) == (100, 8192, 0)
        assert client.outside.armed == 0, "without heartbeats nothing is to be watched"

    def test_a_client_that_sends_all_of_the_handshake_at_once_is_served(self) -> None:
        whole = PROTOCOL_HEADER + b"".join(
            raw_frame(1, 0, payload)
            for payload in (
                spec.encode("connection.start-ok", client_properties={}, mechanism="PLAIN", response=PLAIN, locale=""),
                spec.encode("connection.tune-ok", channel_max=10, frame_max=131072, heartbeat=0),
                spec.encode("connection.open", virtual_host="/"),
            )
        )
        whole += raw_frame(1, 1, spec.encode("channel.open")) + publish("q", b"x" * 20_000)
        for later in (False, True):
            client = Client()
            client.broker.answers_later = later
            said = client.give(whole)
            if later:
                assert names(said) == ["Connection.Start"], (
                    "nothing behind the login may be looked at before its answer"
                )
                client.broker.answer_all()
                said += client.take()
            assert names(said) == ["Connection.Start", "Connection.Tune", "Connection.OpenOk", "Channel.OpenOk"]
            assert client.broker.calls == [("publish_raw", "", "q", 1, 20_000, False)]

    @pytest.mark.parametrize(
        ("channel_max", "frame_max", "text"),
        [
            (2047, 4096, "negotiated frame_max = 4096 is lower than the minimum allowed value (8192)"),
            (2047, 8191, "negotiated frame_max = 8191 is lower than the minimum allowed value (8192)"),
            (2047, 200000, "negotiated frame_max = 200000 is higher than the maximum allowed value (131072)"),
            (2047, 0, "negotiated frame_max = 0 (no limit) is higher than the maximum allowed value (131072)"),
            (3000, 131072, "negotiated channel_max = 3000 is higher than the maximum allowed value (2047)"),
            (0, 131072, "negotiated channel_max = 0 (no limit) is higher than the maximum allowed value (2047)"),
        ],
    )
    def test_tune_ok_may_lower_but_not_raise(self, channel_max: int, frame_max: int, text: str) -> None:
        client = Client()
        client.give(PROTOCOL_HEADER)
        client.say(0, start_ok())
        said = client.say(0, commands.Connection.TuneOk(channel_max, frame_max, 0))
        assert close_of(said) == (530, f"NOT_ALLOWED - {text}", 10, 31)

    def test_unknown_vhost(self) -> None:
        client = Client()
        client.give(PROTOCOL_HEADER)
        client.say(0, start_ok())
        client.say(0, commands.Connection.TuneOk(2047, 131072, 60))
        assert close_of(client.say(0, commands.Connection.Open("nope"))) == (
            530,
            "NOT_ALLOWED - vhost nope not found",
            10,
            40,
        )

    def test_deadline_ends_a_handshake_in_any_state(self) -> None:
        for steps in range(3):
            client = Client()
            assert client.outside.armed == 10.0
            if steps > 0:
                client.give(PROTOCOL_HEADER)
            if steps > 1:
                client.say(0, start_ok())
            client.core.timer_elapsed(NOW)
            assert client.core.state is ConnectionState.CLOSED
            assert "handshake" in str(client.core.close_reason)


class TestLogin:
    def login(
        self, response: bytes, mechanism: str = "PLAIN", capabilities: Any = CAPABILITIES
    ) -> tuple[Client, list[Any]]:
        client = Client()
        client.give(PROTOCOL_HEADER)
        return client, client.say(0, start_ok(response, mechanism, capabilities))

    def test_amqplain(self) -> None:
        table = spec.TYPES["table"][1]({"LOGIN": "guest", "PASSWORD": SECRET.decode()})[4:]
        client = Client()
        client.give(PROTOCOL_HEADER)
        payload = spec.encode(
            "connection.start-ok", client_properties={}, mechanism="AMQPLAIN", response=table, locale="en_US"
        )
        assert names(client.give(raw_frame(1, 0, payload))) == ["Connection.Tune"]
        assert client.core.user == "guest"

    def test_refusal_is_told_to_a_client_that_understands_it(self) -> None:
        client, said = self.login(b"\x00guest\x00wrong")
        assert close_of(said) == (
            403,
            "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile.",
            0,
            0,
        )
        assert "wrong" not in str(client.core.close_reason)

    @pytest.mark.parametrize("response", [b"\x00guest\x00wrong", b"garbage", b"\x00\xff\x00x"])
    def test_refusal_of_another_client_is_silence_and_then_the_end(self, response: bytes) -> None:
        client, said = self.login(response, capabilities={})
        assert said == []
        assert client.core.state is ConnectionState.REFUSED
        assert client.outside.armed == 3.0
        assert client.give(b"anything") == []
        client.core.timer_elapsed(NOW)
        assert client.core.state is ConnectionState.CLOSED

    @pytest.mark.parametrize("capabilities", [CAPABILITIES, {}])
    def test_a_password_that_cannot_be_checked_now_is_not_called_wrong(self, capabilities: dict[str, Any]) -> None:
        """A client that was refused does not try again."""
        client = Client()
        client.broker.refuse["authenticate"] = ResourceExhausted("too many logins are waiting")
        client.give(PROTOCOL_HEADER)
        said = client.say(0, start_ok(PLAIN, capabilities=capabilities))
        assert close_of(said)[:2] == (506, "RESOURCE_ERROR - too many logins are waiting")

    @pytest.mark.parametrize("mechanism", ["FOO", "EXTERNAL", "RABBIT-CR-DEMO", ""])
    def test_a_mechanism_that_was_not_offered(self, mechanism: str) -> None:
        _, said = self.login(b"", mechanism)
        assert close_of(said) == (503, f"COMMAND_INVALID - unknown authentication mechanism '{mechanism}'", 10, 11)

    @pytest.mark.parametrize(("password", "answer"), [(SECRET, "Connection.Tune"), (b"changed", "Connection.Close")])
    def test_anonymous_is_the_configured_user_as_long_as_its_password_is_the_configured_one(
        self, password: bytes, answer: str
    ) -> None:
        client = Client(identity=replace(IDENTITY, anonymous=Credentials("guest", password)))
        (start,) = [value for _, value in client.give(PROTOCOL_HEADER)]
        assert start.mechanisms.split() == ["PLAIN", "AMQPLAIN", "ANONYMOUS"]
        assert names(client.say(0, start_ok(b"trace information", "ANONYMOUS"))) == [answer]

    def test_anonymous_is_unknown_when_nobody_is_configured_for_it(self) -> None:
        _, said = self.login(b"", "ANONYMOUS")
        assert close_of(said) == (503, "COMMAND_INVALID - unknown authentication mechanism 'ANONYMOUS'", 10, 11)

    def test_external_takes_the_user_from_the_certificate(self) -> None:
        client = Client(peer=Peer("amqp-1", "a -> b", "10.0.0.1", 1, False, tls=True, tls_user="ann"))
        (start,) = [value for _, value in client.give(PROTOCOL_HEADER)]
        assert "EXTERNAL" in start.mechanisms.split()
        assert names(client.say(0, start_ok(b"", "EXTERNAL"))) == ["Connection.Tune"]
        assert client.core.user == "ann"

    @pytest.mark.parametrize("secret", [SECRET.decode(), "any other", ""])
    def test_update_secret_is_taken_as_it_is_and_the_sessions_hear_of_it(self, secret: str) -> None:
        client = Client().connect()
        assert names(client.say(0, commands.Connection.UpdateSecret(secret, "rotated"))) == [
            "Connection.UpdateSecretOk"
        ]
        assert client.broker.calls == [("permissions_changed",)]
        assert client.core.state is ConnectionState.RUNNING

    def bearer(self) -> Client:
        client = Client()
        client.give(PROTOCOL_HEADER)
        client.say(0, start_ok(b"\x00any name\x00" + TOKEN + b"ann"))
        client.say(0, commands.Connection.TuneOk(2047, 131072, 60))
        assert names(client.say(0, commands.Connection.Open("/"))) == ["Connection.OpenOk"]
        return client

    def test_who_bears_a_token_is_whom_it_names_and_renews_it(self) -> None:
        client = self.bearer()
        assert client.core.user == "ann"
        first = client.core.login
        renewed = commands.Connection.UpdateSecret((TOKEN + b"ann").decode(), "refreshed")
        assert names(client.say(0, renewed)) == ["Connection.UpdateSecretOk"]
        assert client.core.login is not first
        assert client.broker.connections[0].login is client.core.login

    def test_a_token_that_is_refused_ends_the_connection_that_it_was_to_renew(self) -> None:
        said = self.bearer().say(0, commands.Connection.UpdateSecret("forged", "refreshed"))
        assert close_of(said) == (530, "NOT_ALLOWED - New secret was refused by one of the backends", 0, 0)

    def test_a_token_that_does_not_renew_the_connection_for_the_broker_ends_it(self) -> None:
        client = self.bearer()
        client.broker.refuse["renew_login"] = NotAllowed("access to vhost '/' refused for user 'ann'")
        said = client.say(0, commands.Connection.UpdateSecret((TOKEN + b"ann").decode(), "refreshed"))
        assert close_of(said)[:2] == (530, "NOT_ALLOWED - access to vhost '/' refused for user 'ann'")

    def test_a_token_that_is_verified_after_its_connection_has_ended_renews_nothing(self) -> None:
        client = self.bearer()
        client.broker.answers_later = True
        assert client.say(0, commands.Connection.UpdateSecret((TOKEN + b"ann").decode(), "refreshed")) == []
        client.core.connection_lost(NOW)
        client.broker.answer_all()
        assert client.take() == []

    def test_a_login_that_cannot_be_read_is_audited_as_a_failed_one(self) -> None:
        client, _ = self.login(b"garbage")
        (line,) = client.broker.audited
        assert line.startswith("login failed: an unknown user from ")

    def test_after_a_login_that_took_long_the_client_has_the_time_of_a_handshake_for_the_rest(self) -> None:
        client = Client()
        client.broker.answers_later = True
        client.give(PROTOCOL_HEADER)
        client.say(0, start_ok())
        assert client.outside.armed == LOGIN_TIMEOUT_S
        client.broker.answer_all()
        assert client.outside.armed == client.core.limits.handshake_timeout_s != LOGIN_TIMEOUT_S
