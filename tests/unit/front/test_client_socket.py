"""Sockets of clients: who is at the other end, what of it is logged, and how much is read at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from front.sockets.busy_poll import BusyPoll
from front.sockets.client_socket import (
    INPUT_BYTES,
    INPUT_BYTES_MIN,
    STRANGERS_INPUT_BYTES,
    WINDOW_BYTES,
    ClientSocket,
    printable,
)
from front.sockets.input_share import BUSY_S, INPUT_S_MAX, INPUT_S_MIN, INPUT_TURN_S, InputShare
from front.sockets.socket_peer import peer_of
from wire.proxy_protocol import Proxied


@pytest.mark.parametrize(
    ("socket_host", "proxied_host", "loopback"),
    [
        ("127.0.0.1", None, True),
        ("::1", None, True),
        ("::ffff:127.0.0.1", None, True),
        ("192.0.2.7", None, False),
        ("::ffff:192.0.2.7", None, False),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "203.0.113.9", False),
        ("192.0.2.7", "127.0.0.1", False),
    ],
)
def test_who_is_local_is_decided_by_the_socket_and_the_header(
    socket_host: str, proxied_host: str | None, loopback: bool
) -> None:
    extra = {"peername": (socket_host, 50000), "sockname": ("192.0.2.1", 5672)}
    transport: Any = SimpleNamespace(get_extra_info=extra.get)
    proxied = Proxied(0, (proxied_host, 41000), ("192.0.2.1", 5672)) if proxied_host else None
    assert peer_of(transport, "id", "AMQP 0-9-1", proxied, "common-name").loopback is loopback


def test_control_characters_of_clients_cannot_forge_log_lines() -> None:
    assert printable("a\r\nINFO b\x1b[2J é") == "a\\r\\nINFO b\\x1b[2J é"


def test_a_socket_reads_as_much_as_it_can_work_on_in_a_short_time() -> None:
    server: Any = SimpleNamespace(input=memoryview(bytearray(INPUT_BYTES)), input_share=InputShare(lambda call: call()))
    one = ClientSocket(server, proxy_protocol=False, source="192.0.2.1")
    assert len(one.get_buffer(-1)) == STRANGERS_INPUT_BYTES
    one._logged_in = True
    for _ in range(10):
        one._adapt_input(len(one.get_buffer(-1)), INPUT_S_MAX / 10)
    assert len(one.get_buffer(-1)) == INPUT_BYTES, "cheap ones"
    one._adapt_input(INPUT_BYTES, 10 * INPUT_S_MAX)
    assert len(one.get_buffer(-1)) == INPUT_BYTES // 10
    one._adapt_input(1_000, INPUT_S_MAX / 10)
    assert len(one.get_buffer(-1)) == INPUT_BYTES // 10, "a short one says nothing"
    one._adapt_input(INPUT_BYTES // 10, 1_000 * INPUT_S_MAX)
    assert len(one.get_buffer(-1)) == INPUT_BYTES_MIN


def test_a_small_read_of_a_turn_that_is_used_up_tells_what_its_bytes_cost() -> None:
    """A socket that came late in each turn read a little at no risk, and then 128 KiB in the first turn that had room."""
    share = InputShare(lambda call: None)
    server: Any = SimpleNamespace(input=memoryview(bytearray(INPUT_BYTES)), input_share=share)
    one = ClientSocket(server, proxy_protocol=False, source="192.0.2.1")
    one._logged_in = True
    for _ in range(10):
        one._adapt_input(len(one.get_buffer(-1)), INPUT_S_MAX / 10)
    share.worked(INPUT_TURN_S)
    small = len(one.get_buffer(-1))
    one._adapt_input(small // 2, INPUT_S_MAX / 4)
    assert one._input_bytes == INPUT_BYTES, "less than it might have read: what is dear in it may be one method"
    one._adapt_input(small, INPUT_S_MAX / 4)
    assert one._input_bytes == 4 * small


def test_sockets_that_are_busy_in_the_same_turn_share_it() -> None:
    """Twenty of them took 10 ms each, and the loop came to its timers after 200."""
    soon: list[Callable[[], None]] = []
    share = InputShare(soon.append)
    server: Any = SimpleNamespace(input=memoryview(bytearray(INPUT_BYTES)), input_share=share)
    sockets = [ClientSocket(server, proxy_protocol=False, source="192.0.2.1") for _ in range(20)]
    byte_s = INPUT_S_MAX / INPUT_BYTES

    def turn(busy: list[ClientSocket]) -> float:
        read = [(one, len(one.get_buffer(-1))) for one in busy]
        for one, nbytes in read:
            one._adapt_input(nbytes, nbytes * byte_s)
        for call in soon[:]:
            soon.remove(call)
            call()
        return sum(nbytes for _, nbytes in read) * byte_s

    for one in sockets:
        one._logged_in = True
    for _ in range(10):
        turn(sockets[:1])
    assert INPUT_S_MAX / 2 <= turn(sockets[:1]) <= INPUT_S_MAX, "one that is alone"
    for _ in range(10):
        turn(sockets)
    assert INPUT_TURN_S / 4 < turn(sockets) <= INPUT_TURN_S
    for _ in range(10):
        turn(sockets[:1])
    assert turn(sockets[:1]) >= INPUT_S_MAX / 4, "alone again"
    share.worked(INPUT_TURN_S)
    assert len(sockets[1].get_buffer(-1)) == INPUT_BYTES_MIN, "others have used up the turn"
    soon.pop()()
    share.worked(BUSY_S / 2)
    assert not soon, "who has little to say is not counted"
    for _ in range(1000):
        share.worked(BUSY_S)
    soon.pop()()
    assert share.seconds == INPUT_S_MIN


def test_a_read_that_was_limited_too_much_goes_on_in_the_same_turn_until_its_share_is_used_up() -> None:
    """Windows of 200 messages were cut at the first read, and published, confirmed and delivered as 195 and 5 from then on."""
    server: Any = SimpleNamespace(input=memoryview(bytearray(INPUT_BYTES)), input_share=InputShare(lambda call: None))
    one = ClientSocket(server, proxy_protocol=False, source="192.0.2.1")
    one._logged_in = True
    byte_s = INPUT_S_MAX / INPUT_BYTES
    took_s = []
    for _ in range(10):
        took_s.append(len(one.get_buffer(-1)) * byte_s)
        if not one._adapt_input(len(one.get_buffer(-1)), took_s[-1]):
            break
    assert len(took_s) > 3 and sum(took_s) <= INPUT_S_MAX
    assert not one._adapt_input(len(one.get_buffer(-1)) - 1, 0.0), "there is no more"
    one._input_bytes = INPUT_BYTES
    assert not one._adapt_input(len(one.get_buffer(-1)), 0.0), "it cannot be larger"


def reading_socket(done: list[str]) -> ClientSocket:
    """It notes what it has done with what it read."""
    transport = SimpleNamespace(
        is_closing=lambda: False,
        pause_reading=lambda: done.append("pause"),
        resume_reading=lambda: done.append("resume"),
    )
    turns = SimpleNamespace(
        begin=lambda: 0, end=lambda now: done.append("turn"), end_behind_input=lambda: done.append("turn follows")
    )
    server: Any = SimpleNamespace(
        input=memoryview(bytearray(INPUT_BYTES)),
        input_share=InputShare(lambda call: call()),
        publishers_held=False,
        monotonic=time.monotonic,
        wall_ms=lambda: 0,
        turns=turns,
        busy_poll=None,
    )
    one = ClientSocket(server, proxy_protocol=False, source="192.0.2.1")
    one._logged_in = True
    one._transport = transport  # type: ignore[assignment]
    one._core = SimpleNamespace(  # type: ignore[assignment]
        pressure=SimpleNamespace(reads=True), publishes=False, receive_data=lambda data, now: done.append("data")
    )
    return one


def read(one: ClientSocket, nbytes: int | None = None) -> None:
    """So much, or as much as it has room for."""
    room = len(one.get_buffer(-1))
    one.buffer_updated(room if nbytes is None else nbytes)


def test_each_input_keeps_a_loop_from_sleeping_that_is_to_poll_busily() -> None:
    done: list[str] = []
    one = reading_socket(done)
    one._server.busy_poll = BusyPoll(lambda call: done.append("look again"), lambda: 0.0, 1.0)
    read(one, 10)
    assert done == ["data", "turn", "look again"]


def test_after_a_full_read_a_socket_rests_until_the_next_turn() -> None:
    """Others would wait for 32 reads otherwise: so many libuv makes in one turn while they come back full."""
    done: list[str] = []

    async def reads() -> None:
        one = reading_socket(done)
        read(one, 100)
        assert done == ["data", "turn"], "there is no more"
        done.clear()
        read(one)
        assert done == ["data", "turn follows"], "it was limited too much: the rest is read at once"
        one._input_bytes = INPUT_BYTES
        done.clear()
        read(one)
        assert done == ["data", "turn", "pause"]
        await asyncio.sleep(0)
        assert done == ["data", "turn", "pause", "resume"]
        done.clear()
        read(one)
        assert done == ["data", "turn", "pause"], "it was read as far as it may be: nothing is waited for"

    asyncio.run(reads())


def test_a_turn_waits_once_for_the_rest_of_what_a_client_sends_at_once() -> None:
    """A window of 1,000 messages was read as the system copied them, 390 and 610, and confirmed and sent so from then on."""
    done: list[str] = []
    one = reading_socket(done)
    one._input_bytes = INPUT_BYTES
    read(one, WINDOW_BYTES)
    read(one, WINDOW_BYTES)
    assert done == ["data", "turn follows", "data", "turn"], "what keeps coming is not waited for"
    read(one, WINDOW_BYTES)
    read(one, WINDOW_BYTES - 1)
    assert done[4:] == ["data", "turn follows", "data", "turn"]
    read(one, WINDOW_BYTES - 1)
    assert done[8:] == ["data", "turn"], "little is worth no waiting"
