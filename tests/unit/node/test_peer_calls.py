"""Calls between nodes: in order, answered once or ended with None, and never by another link than the one that asked."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.background_work import BackgroundWork
from node.peers import calls as peer_calls
from node.peers.calls import (
    CALLS,
    CLASSIC,
    CLUSTER,
    HIGH_BYTES,
    LETTER_BYTES,
    METADATA,
    PART_BYTES,
    PAYLOAD_BYTES_MAX,
    QUORUM,
    Answer,
    PeerCalls,
    entries,
)
from node.peers.link import LinkLimits, PeerLink
from raft.core.errors import BadBytes
from tests.unit.node.memory_calls import MemoryNetwork
from tests.unit.node.test_peer_stream import TIMEOUT_S, pair


class Pair:
    """Nodes 1 and 2, linked. Node 2 notes what it hears on CLASSIC, and answers on METADATA with the payload backwards."""

    def __init__(self) -> None:
        self.network = MemoryNetwork()
        self.one, self.two = self.network.join(1), self.network.join(2)
        self.network.connect_all()
        self.heard: list[bytes] = []
        self.answers: list[bytes | None] = []
        self.two.serve(CLASSIC, lambda node, payload, answer: self.heard.append(payload))
        self.two.serve(METADATA, lambda node, payload, answer: answer and answer(payload[::-1]))


def test_what_is_told_arrives_in_order_and_as_one_letter_a_turn() -> None:
    nodes = Pair()
    for number in range(100):
        assert nodes.one.tell(2, CLASSIC, b"%d" % number)
    nodes.network.run()
    assert nodes.heard == [b"%d" % number for number in range(100)]
    assert nodes.network.wires[1].letters_sent == 1


def test_a_payload_may_come_in_pieces() -> None:
    nodes = Pair()
    nodes.one.tell(2, CLASSIC, [b"some", memoryview(b"thing")[1:3], bytearray(b" else")])
    nodes.one.tell(2, CLASSIC, b"")
    nodes.network.run()
    assert nodes.heard == [b"somehi else", b""]


def test_asks_are_answered_each_its_own_way_and_late_answers_find_back() -> None:
    nodes = Pair()
    waiting: list[tuple[bytes, Answer]] = []

    def later(node: int, payload: bytes, answer: Answer | None) -> None:
        assert answer is not None
        waiting.append((payload, answer))

    nodes.two.serve(QUORUM, later)
    for number in range(3):
        nodes.one.ask(2, QUORUM, b"late %d" % number, nodes.answers.append)
    nodes.one.ask(2, METADATA, b"abc", nodes.answers.append)
    nodes.network.run()
    assert nodes.answers == [b"cba"]
    for payload, answer in reversed(waiting):
        answer(b"to " + payload)
    nodes.network.run()
    assert nodes.answers == [b"cba", b"to late 2", b"to late 1", b"to late 0"]


def test_without_a_link_nothing_is_taken() -> None:
    nodes = Pair()
    nodes.network.disconnect(1, 2)
    assert not nodes.one.tell(2, CLASSIC, b"x")
    nodes.one.ask(2, METADATA, b"x", nodes.answers.append)
    assert nodes.answers == [], "an answer comes later, never while asking"
    nodes.network.run()
    assert nodes.answers == [None]
    assert not nodes.one.connected(2) and not nodes.one.writable(2)


def test_who_waits_when_a_link_breaks_is_told_none_before_the_link_is_called_gone() -> None:
    nodes = Pair()
    events: list[object] = []
    nodes.one.on_link(lambda node, came: events.append((node, came)))
    nodes.one.ask(2, METADATA, b"x", events.append)
    nodes.one.tell(2, CLASSIC, b"never heard")
    nodes.network.connect(1, 2)  # in place of the one before
    nodes.network.run()
    assert events == [None, (2, False), (2, True)]
    assert nodes.heard == []


def test_an_answer_never_passes_from_one_link_to_the_next() -> None:
    nodes = Pair()
    waiting: list[Answer] = []

    def later(node: int, payload: bytes, answer: Answer | None) -> None:
        assert answer is not None
        waiting.append(answer)

    nodes.two.serve(QUORUM, later)
    nodes.one.ask(2, QUORUM, b"old", lambda answer: nodes.answers.append(answer))
    nodes.network.run()
    nodes.network.connect(1, 2)
    nodes.one.ask(2, QUORUM, b"new", lambda answer: nodes.answers.append(answer))
    nodes.network.run()
    waiting[0](b"for the old one")
    waiting[1](b"for the new one")
    nodes.network.run()
    assert nodes.answers == [None, b"for the new one"]


def test_what_is_said_while_a_link_is_called_gone_does_not_reach_the_next_one() -> None:
    nodes = Pair()
    told: list[bool] = []
    nodes.one.on_link(lambda node, came: came or told.append(nodes.one.tell(2, CLASSIC, b"too late")))
    nodes.network.connect(1, 2)
    nodes.network.run()
    assert told == [False]
    assert nodes.heard == []


def test_one_who_fails_to_hear_that_its_link_went_does_not_keep_others_waiting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nodes = Pair()

    def fail(answer: bytes | None) -> None:
        raise KeyError(answer)

    nodes.one.ask(2, METADATA, b"x", fail)
    nodes.one.ask(2, METADATA, b"y", nodes.answers.append)
    nodes.network.disconnect(1, 2)
    assert nodes.answers == [None]
    assert "could not be told" in caplog.text


def test_a_request_answered_twice_is_a_mistake_of_ours() -> None:
    nodes = Pair()
    answers: list[Answer | None] = []
    nodes.two.serve(QUORUM, lambda node, payload, answer: answers.append(answer))
    nodes.one.ask(2, QUORUM, b"", lambda _: None)
    nodes.network.run()
    (answer,) = answers
    assert answer is not None
    answer(b"once")
    with pytest.raises(AssertionError, match="answered twice"):
        answer(b"and again")


def test_a_topic_that_the_other_node_does_not_know_is_answered_with_none() -> None:
    """It may be older than this one. Its link stays."""
    nodes = Pair()
    nodes.one.ask(2, CLUSTER, b"x", nodes.answers.append)
    nodes.one.tell(2, CLUSTER, b"x")
    nodes.one.ask(2, METADATA, b"still", nodes.answers.append)
    nodes.network.run()
    assert nodes.answers == [None, b"llits"]


def fails(node: int, payload: bytes, answer: Answer | None) -> None:
    raise KeyError(payload)


def test_a_handler_that_fails_on_a_request_costs_that_request_and_not_the_link(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It was taken for bad bytes of the other node, which ended the link and with it all that was under way on it."""
    nodes = Pair()
    nodes.two.serve(QUORUM, fails)
    nodes.one.ask(2, QUORUM, b"poison", nodes.answers.append)
    nodes.one.tell(2, CLASSIC, b"behind it in the same letter")
    with caplog.at_level(logging.ERROR):
        nodes.network.run()
    assert "a fault of this node: what node 1 asks on topic 3 could not be handled" in caplog.text
    assert "KeyError: b'poison'" in caplog.text
    assert nodes.answers == [None]
    assert nodes.heard == [b"behind it in the same letter"]
    assert nodes.two.handler_failures == 1
    assert nodes.network.bad == []


def test_a_handler_that_answers_and_then_fails_has_answered_once() -> None:
    nodes = Pair()
    kept: list[Answer] = []

    def answers_and_fails(node: int, payload: bytes, answer: Answer | None) -> None:
        assert answer is not None
        kept.append(answer)
        if payload == b"at once":
            answer(b"done")
        raise KeyError(payload)

    nodes.two.serve(QUORUM, answers_and_fails)
    nodes.one.ask(2, QUORUM, b"at once", nodes.answers.append)
    nodes.one.ask(2, QUORUM, b"later", nodes.answers.append)
    nodes.network.run()
    assert nodes.answers == [b"done", None]
    kept[1](b"too late")
    nodes.network.run()
    assert nodes.answers == [b"done", None]


def test_a_handler_that_fails_on_what_it_is_told_ends_the_link_and_blames_this_node(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """None of what is told is lost while a link lives, so the link ends."""
    nodes = Pair()
    nodes.two.serve(QUORUM, fails)
    nodes.one.tell(2, QUORUM, b"poison")
    with caplog.at_level(logging.ERROR):
        nodes.network.run()
    assert "KeyError: b'poison'" in caplog.text
    assert nodes.network.bad == ["a fault of this node: what node 1 says on topic 3 could not be handled"]
    assert not nodes.two.connected(1)
    nodes.network.connect(1, 2)
    nodes.one.tell(2, CLASSIC, b"again")
    nodes.network.run()
    assert nodes.heard == [b"again"]


def test_a_payload_that_its_handler_calls_bad_ends_the_link_and_is_no_fault_of_this_node() -> None:
    nodes = Pair()

    def refuses(node: int, payload: bytes, answer: Answer | None) -> None:
        raise BadBytes(f"{payload!r} says nothing")

    nodes.two.serve(QUORUM, refuses)
    nodes.one.ask(2, QUORUM, b"poison", nodes.answers.append)
    nodes.network.run()
    assert nodes.network.bad == ["b'poison' says nothing"]
    assert nodes.two.handler_failures == 0
    assert nodes.answers == [None]


@pytest.mark.parametrize(
    ("letter", "why"),
    [
        (b"", "no letter of kind 4"),
        (b"\5", "no letter of kind 4"),
        (b"\4\1", "an entry begins at 1, and the letter ends at 2"),
        (b"\4" + bytes(15), "no entry of kind 0"),
        (b"\4\6" + bytes(14), "no entry of kind 6"),
        (b"\4\2" + bytes(10) + b"\5\0\0\0abcd", "an entry of 5 bytes at 16, and the letter ends at 20"),
        (b"\4\3" + bytes(14), "an answer to request 0, which waits for none"),
    ],
)
def test_a_letter_that_is_none_ends_the_link(letter: bytes, why: str) -> None:
    nodes = Pair()
    nodes.two.receive(1, letter)
    assert len(nodes.network.bad) == 1 and why in nodes.network.bad[0]
    assert not nodes.two.connected(1)


@settings(deadline=None)
@given(letter=st.binary(max_size=200), kind=st.sampled_from([CALLS, 0, 1, 7]))
def test_whatever_the_bytes_are_they_are_heard_or_refused(letter: bytes, kind: int) -> None:
    nodes = Pair()
    nodes.two.receive(1, bytes([kind]) + letter)
    assert kind == CALLS or nodes.network.bad


SMALL_BYTES = 200  # of parts and letters
SIZES = [SMALL_BYTES - 1, SMALL_BYTES, SMALL_BYTES + 1, 2 * SMALL_BYTES, 5 * SMALL_BYTES + 5]
SAYS = st.lists(
    st.tuples(
        st.sampled_from(["tell", "ask", "turn"]),
        st.sampled_from([CLASSIC, QUORUM]),
        st.one_of(st.binary(max_size=40), st.sampled_from(SIZES).map(bytes)),
    ),
    max_size=12,
)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_calls, "PART_BYTES", SMALL_BYTES)
    monkeypatch.setattr(peer_calls, "LETTER_BYTES", SMALL_BYTES)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(says=SAYS)
def test_all_that_is_said_is_heard_whole_once_and_in_order(
    small_parts: None, says: list[tuple[str, int, bytes]]
) -> None:
    network = MemoryNetwork()
    one, two = network.join(1), network.join(2)
    network.connect_all()
    heard: list[tuple[str, int, bytes]] = []
    answers: list[tuple[int, bytes | None]] = []

    def hear(topic: int) -> Callable[[int, bytes, Answer | None], None]:
        def handler(node: int, payload: bytes, answer: Answer | None) -> None:
            heard.append(("tell" if answer is None else "ask", topic, payload))
            if answer is not None:
                answer([b"about ", payload])

        return handler

    for topic in (CLASSIC, QUORUM):
        two.serve(topic, hear(topic))
    for number, (verb, topic, payload) in enumerate(says):
        if verb == "tell":
            one.tell(2, topic, payload)
        elif verb == "ask":
            one.ask(2, topic, payload, lambda answer, number=number: answers.append((number, answer)))  # type: ignore[misc]
        else:
            network.loop.run_soon()
    network.run()
    assert heard == [say for say in says if say[0] != "turn"]
    assert answers == [(number, b"about " + say[2]) for number, say in enumerate(says) if say[0] == "ask"]
    assert network.bad == []


def test_a_large_payload_leaves_in_letters_of_bounded_size() -> None:
    nodes = Pair()
    payload = random.Random(1).randbytes(3 * PART_BYTES + 10)
    nodes.one.tell(2, CLASSIC, payload)
    nodes.network.loop.run_soon()
    assert [len(letter) <= LETTER_BYTES + 20 for letter in nodes.network.wires[1].ways[2]] == [True] * 4
    nodes.network.run()
    assert nodes.heard == [payload]


def test_a_payload_beyond_the_limit_is_refused_here_and_would_end_the_link_there() -> None:
    nodes = Pair()
    with pytest.raises(ValueError, match="another node takes at most"):
        nodes.one.tell(2, CLASSIC, bytes(PAYLOAD_BYTES_MAX + 1))
    part = b"\4\4" + bytes(10) + PART_BYTES.to_bytes(4, "little") + bytes(PART_BYTES)
    assert len(list(entries(part))) == 1
    for _ in range(PAYLOAD_BYTES_MAX // PART_BYTES):
        nodes.two.receive(1, part)
    assert nodes.network.bad == []
    nodes.two.receive(1, part)
    assert len(nodes.network.bad) == 1 and "a payload of more than" in nodes.network.bad[0]


def told(*payloads: bytes) -> bytes:
    """A letter that tells these on topic CLASSIC."""
    heads = [b"\2" + CLASSIC.to_bytes(2, "little") + bytes(8) + len(one).to_bytes(4, "little") for one in payloads]
    return b"\4" + b"".join(map(b"".join, zip(heads, payloads, strict=True)))


class Slowly(Pair):
    """The second node hears one entry a turn."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: deque[Callable[[], None]] = deque()
        self.two.work = BackgroundWork(self.turns.append, lambda: 0.0, steps_max=1)

    def turn(self) -> None:
        self.turns.popleft()()


def test_what_comes_at_once_is_heard_an_entry_at_a_time_in_order() -> None:
    nodes = Slowly()
    nodes.two.receive(1, told(b"a", b"b", b"c"))
    nodes.two.receive(1, told(b"d"))
    assert nodes.heard == [b"a", b"b"]  # the first turn's, and the one that any turn may begin with
    heard = [len(nodes.heard)]
    while nodes.turns:
        nodes.turn()
        heard.append(len(nodes.heard))
    assert nodes.heard == [b"a", b"b", b"c", b"d"]
    assert max(after - before for before, after in pairwise(heard)) == 1
    nodes.two.receive(1, told(b"e"))
    assert nodes.heard[-1] == b"e"


def test_what_was_not_heard_yet_goes_with_its_link() -> None:
    nodes = Slowly()
    nodes.two.receive(1, told(b"a", b"b", b"c"))
    nodes.network.connect(1, 2)
    nodes.two.receive(1, told(b"new"))
    while nodes.turns:
        nodes.turn()
    assert nodes.heard == [b"a", b"b", b"new"]


def test_behind_what_cannot_be_read_nothing_is_heard_any_more_and_the_link_ends_in_a_later_turn() -> None:
    nodes = Slowly()
    nodes.two.receive(1, told(b"a", b"b", b"c") + b"\7" + bytes(14))
    nodes.two.receive(1, told(b"behind"))
    assert nodes.network.bad == [] and nodes.two.connected(1)
    while nodes.turns:
        nodes.turn()
    assert nodes.heard == [b"a", b"b", b"c"] and len(nodes.network.bad) == 1
    assert not nodes.two.connected(1)


def test_more_than_may_wait_of_a_node_is_heard_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_calls, "INBOX_BYTES_MAX", 1_000)
    nodes = Slowly()
    letters = [told(b"%d" % number + bytes(300)) for number in range(10)]
    for letter in letters:
        nodes.two.receive(1, letter)
    assert 6 <= len(nodes.heard) < 10
    while nodes.turns:
        nodes.turn()
    assert [one.rstrip(b"\0") for one in nodes.heard] == [b"%d" % number for number in range(10)]


def test_a_node_for_which_much_waits_is_unwritable_until_it_has_drained() -> None:
    nodes = Pair()
    writable: list[int] = []
    nodes.one.on_writable(writable.append)
    nodes.network.stop_way(1, 2)
    sent = 0
    while nodes.one.writable(2):
        nodes.one.tell(2, CLASSIC, bytes(100_000))
        sent += 1
    assert sent == HIGH_BYTES // 100_000 + 1
    nodes.network.run()
    assert writable == []
    nodes.network.open_way(1, 2)
    nodes.network.run()
    assert writable == [2]
    assert nodes.one.writable(2)
    assert len(nodes.heard) == sent


# ------------------------------------------------------------------------- over real streams


def test_calls_cross_a_real_stream_and_end_with_it() -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            called, _, calls, more = await called_and_caller(stack)
            heard: asyncio.Queue[bytes | None] = asyncio.Queue()
            calls.serve(CLASSIC, lambda node, payload, answer: answer and answer(payload.upper()))
            calls.serve(QUORUM, lambda node, payload, answer: None)  # answers never
            large = random.Random(2).randbytes(5 << 20).lower()
            for payload in (b"abc", large, b"def"):
                more.ask(1, CLASSIC, payload, heard.put_nowait)
            for expected in (b"ABC", large.upper(), b"DEF"):
                assert await asyncio.wait_for(heard.get(), TIMEOUT_S) == expected
            more.ask(1, QUORUM, b"", heard.put_nowait)
            more.ask(1, CLASSIC, b"ghi", heard.put_nowait)
            assert await asyncio.wait_for(heard.get(), TIMEOUT_S) == b"GHI"
            called.link.end()
            assert await asyncio.wait_for(heard.get(), TIMEOUT_S) is None

    asyncio.run(scenario())


def test_letters_of_raft_are_not_dropped_for_calls_nor_calls_for_them() -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            limits = LinkLimits(queue_bytes_max=1_000, calls_bytes_max=1 << 20)
            called, caller, calls, more = await called_and_caller(stack, limits)
            heard: asyncio.Queue[bytes] = asyncio.Queue()
            more.serve(CLASSIC, lambda node, payload, answer: heard.put_nowait(payload))
            with held(called.link):
                for number in range(100):
                    calls.tell(2, CLASSIC, b"%d" % number + bytes(100))
                for _ in range(20):
                    called.links.send(2, bytes([1]) + bytes(99))
                assert called.link.dropped == 10
                await asyncio.sleep(0)  # the turn ends
                assert called.links.calls_waiting(2) > 10_000
            for number in range(100):
                assert (await asyncio.wait_for(heard.get(), TIMEOUT_S)).startswith(b"%d\0" % number)
            for _ in range(10):
                assert (await caller.ears.next())[0] == "letter"

    asyncio.run(scenario())


def test_more_calls_than_the_hard_limit_end_the_link() -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            called, _, calls, _ = await called_and_caller(stack, LinkLimits(calls_bytes_max=1_000))
            gone: asyncio.Queue[bool] = asyncio.Queue()
            calls.on_link(lambda node, came: gone.put_nowait(came))
            with held(called.link):
                for _ in range(20):
                    calls.tell(2, CLASSIC, bytes(100))
                assert await asyncio.wait_for(gone.get(), TIMEOUT_S) is False
            assert await asyncio.wait_for(gone.get(), TIMEOUT_S) is True, "the caller calls again"

    asyncio.run(scenario())


@contextmanager
def held(link: PeerLink) -> Iterator[None]:
    """The system takes nothing more for this connection meanwhile."""
    assert link._line is not None, "there is no connection"
    socket = link._line.socket
    socket.pause_writing()
    yield
    socket.resume_writing()


async def called_and_caller(stack: AsyncExitStack, limits: LinkLimits | None = None) -> tuple:  # type: ignore[type-arg]
    """Nodes 1 and 2 over a connection, and the calls of each."""
    loop, calls = asyncio.get_running_loop(), []

    def prepare(links: object) -> None:
        calls.append(PeerCalls(links, loop, logging.getLogger("test")))  # type: ignore[arg-type]

    called, caller, _ = await stack.enter_async_context(pair(limits, prepare))
    return called, caller, *calls
