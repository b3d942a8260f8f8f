"""front/web: real requests over loopback against a handler of the test's own."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable

import h11
import pytest

from broker.login.client_address import ClientAddress
from broker.records import UserRecord
from front.web.http import server as web_server
from front.web.http.request import HttpError, Request, Response, json_response
from front.web.http.server import WebServer
from front.web.router import WebRouter

Answer = Callable[[Request], Awaitable[Response]]


BODY_BYTES_MAX = 1_000
LOCAL = ClientAddress("127.0.0.1", 40_000, True, "HTTP")


async def allowance(request: Request) -> int:
    return BODY_BYTES_MAX


async def echo(request: Request) -> Response:
    return json_response({"method": request.method, "parts": request.parts, "body": request.body.decode()})


def exchange(data: bytes, answer: Answer = echo, chunk: int | None = None) -> bytes:
    """What the server sends for these bytes until it closes."""

    async def talk() -> bytes:
        server = WebServer(answer, allowance, wall_ms=lambda: 1)
        port = await server.listen("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for start in range(0, len(data), chunk or len(data)):
            writer.write(data[start : start + (chunk or len(data))])
            await writer.drain()
        async with asyncio.timeout(10):
            received = await reader.read(-1)
        writer.close()
        await server.stop()
        return received

    return asyncio.run(talk())


def test_a_request_is_answered_and_the_connection_closed_when_asked() -> None:
    reply = exchange(b"GET /api/queues/%2F/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 200")
    assert json.loads(reply.partition(b"\r\n\r\n")[2]) == {
        "method": "GET",
        "parts": ["api", "queues", "/", "a"],
        "body": "",
    }


@pytest.mark.parametrize("chunk", [None, 1, 7])
def test_pipelined_requests_are_answered_in_order_however_they_arrive(chunk: int | None) -> None:
    first = b"PUT /one HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
    second = b"GET /two HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    reply = exchange(first + second, chunk=chunk)
    assert reply.count(b"HTTP/1.1 200") == 2
    assert reply.index(b'"abc"') < reply.index(b'"two"')


@pytest.mark.parametrize(
    "flood",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 2_000,
        b"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 900 + b"0\r\n\r\n",
    ],
)
def test_others_are_served_between_the_many_things_that_one_client_has_sent_at_once(flood: bytes) -> None:
    """All of them lie in the reader, and nothing is waited for: unless turns are given up they are one."""
    beats = [0]

    async def counting(request: Request) -> Response:
        seen.append(beats[0])
        return json_response({})

    async def beat() -> None:
        while True:
            beats[0] += 1
            await asyncio.sleep(0)

    seen: list[int] = []

    async def run() -> int:
        reader, writer = asyncio.StreamReader(), SilentWriter()
        reader.feed_data(flood)
        reader.feed_eof()
        server = WebServer(counting, allowance, wall_ms=lambda: 1)
        beside = asyncio.create_task(beat())
        writer.socket = web_server.WebSocket(server, "127.0.0.1")
        await server.serve_connection(reader, writer)  # type: ignore[arg-type]
        beside.cancel()
        return beats[0]

    assert asyncio.run(run()) >= max(len(seen), 900 // web_server.PIECES_AT_ONCE)


def test_others_have_their_turn_while_a_client_reads_all_that_it_is_sent() -> None:
    """A list of many megabytes to a client that is quick enough for the writer never to wait was one turn."""
    pieces, beats = 64, 0

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0)

    async def run() -> None:
        server = WebServer(echo, allowance, wall_ms=lambda: 1)
        connection = h11.Connection(h11.SERVER)
        connection.receive_data(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        connection.next_event()
        answer = Response(200, pieces=[bytes(web_server.SENT_AT_ONCE_BYTES)] * pieces)
        beating = asyncio.ensure_future(beat())
        await server._send(connection, SilentWriter(), answer, head=False)  # type: ignore[arg-type]
        beating.cancel()

    asyncio.run(run())
    assert beats >= pieces


class SilentWriter:
    """Takes everything at once, as a socket does whose client reads. It is its own transport."""

    def __init__(self) -> None:
        self.transport = self
        self.socket: web_server.WebSocket | None = None

    def get_protocol(self) -> web_server.WebSocket | None:
        return self.socket

    def get_extra_info(self, name: str) -> None:
        return None

    def write(self, data: bytes) -> None:
        pass

    async def drain(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_garbage_is_answered_with_400_and_closed() -> None:
    assert exchange(b"\x16\x03\x01 not http\r\n\r\n").startswith(b"HTTP/1.1 400")


def test_a_body_that_announces_too_much_is_refused_before_it_is_sent() -> None:
    size = BODY_BYTES_MAX + 1
    reply = exchange(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size)
    assert reply.startswith(b"HTTP/1.1 400")
    assert str(size).encode() in reply


def test_a_body_in_chunks_is_refused_once_it_is_too_large() -> None:
    chunk = b"%x\r\n%b\r\n" % (BODY_BYTES_MAX, b"a" * BODY_BYTES_MAX)
    reply = exchange(b"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk + b"1\r\na\r\n")
    assert reply.startswith(b"HTTP/1.1 400")


def test_a_body_is_asked_for_when_its_client_waits_for_that() -> None:
    head = b"PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\nConnection: close\r\n\r\n"

    async def talk() -> list[bytes]:
        server = WebServer(echo, allowance, wall_ms=lambda: 1)
        reader, writer = await asyncio.open_connection("127.0.0.1", await server.listen("127.0.0.1", 0))
        async with asyncio.timeout(10):
            writer.write(head)
            first = await reader.readuntil(b"\r\n\r\n")
            writer.write(b"abc")
            second = await reader.read(-1)
        writer.close()
        await server.stop()
        return [first, second]

    asked, answered = asyncio.run(talk())
    assert asked.startswith(b"HTTP/1.1 100") and answered.endswith(b'"body":"abc"}')


def test_long_bodies_of_all_connections_are_kept_within_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may be as long as one may be, and there may be a thousand."""
    monkeypatch.setattr(web_server, "BODIES_BYTES_MAX", 1_000)
    monkeypatch.setattr(web_server, "SHORT_BODY_BYTES", 100)

    async def run() -> list[bytes]:
        server = WebServer(echo, allowance, wall_ms=lambda: 1)
        port = await server.listen("127.0.0.1", 0)
        first = await posted(port, 700)
        second = await posted(port, 700)
        refused = await second[0].readuntil(b"\r\n")
        short = await posted(port, 100)
        short[1].write(b"x")
        taken = await short[0].readuntil(b"\r\n")
        first[1].write(b"x")
        answered = await first[0].readuntil(b"\r\n")
        third = await posted(port, 700)
        third[1].write(b"x")
        found = [refused, taken, answered, await third[0].readuntil(b"\r\n")]
        for _, writer in (first, second, short, third):
            writer.close()
        await server.stop()
        return found

    async def posted(port: int, size: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """All of the body but a byte."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = b"PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % size
        writer.write(head)
        await reader.readuntil(b"100 \r\n\r\n")
        writer.write(b"x" * (size - 1))
        await writer.drain()
        return reader, writer

    said = asyncio.run(asyncio.wait_for(run(), 10))
    assert [line.split()[1] for line in said] == [b"503", b"200", b"200", b"200"]


def test_a_head_beyond_the_limit_is_refused() -> None:
    reply = exchange(b"GET / HTTP/1.1\r\nX: " + b"a" * (web_server.HEADER_BYTES_MAX + 10))
    assert reply.startswith(b"HTTP/1.1 431")


def test_a_handler_that_fails_gives_500_and_no_detail() -> None:
    async def fail(request: Request) -> Response:
        raise RuntimeError("secret")

    reply = exchange(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", fail)
    assert reply.startswith(b"HTTP/1.1 500")
    assert b"secret" not in reply


def test_head_answers_the_length_without_the_body() -> None:
    reply = exchange(b"HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 200")
    assert reply.endswith(b"\r\n\r\n")


def headers_of(reply: bytes) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in reply.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]:
        name, _, value = line.partition(": ")
        found.setdefault(name.lower(), []).append(value)
    return found


@pytest.mark.parametrize(("given", "caching"), [((), "no-cache"), ((("Cache-Control", "max-age=5"),), "max-age=5")])
def test_every_answer_tells_browsers_not_to_guess_frame_or_keep_it(
    given: tuple[tuple[str, str], ...], caching: str
) -> None:
    async def answer(request: Request) -> Response:
        return Response(200, b"x", headers=given)

    found = headers_of(exchange(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", answer))
    assert found["x-content-type-options"] == ["nosniff"] and found["x-frame-options"] == ["DENY"]
    assert found["referrer-policy"] == ["no-referrer"] and found["cache-control"] == [caching]


def test_an_answer_that_nothing_has_changed_has_no_body() -> None:
    async def unchanged(request: Request) -> Response:
        return Response(304, b"what the browser has")

    reply = exchange(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", unchanged)
    assert reply.startswith(b"HTTP/1.1 304") and reply.endswith(b"\r\n\r\n")


HALF = b"GET / HTTP/1.1\r\nHost:"


@pytest.mark.parametrize("before", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"])
def test_a_client_that_keeps_still_within_a_request_is_dropped(monkeypatch: pytest.MonkeyPatch, before: bytes) -> None:
    """Also when what it has begun came together with the request before."""
    monkeypatch.setattr(web_server, "REQUEST_TIMEOUT_S", 0.05)
    monkeypatch.setattr(web_server, "STRANGER_IDLE_TIMEOUT_S", 60)
    assert exchange(before + HALF).count(b"HTTP/1.1 200") == bool(before)


def test_a_client_that_sends_a_request_a_byte_at_a_time_is_dropped_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(web_server, "REQUEST_TIMEOUT_S", 0.5)

    async def drip() -> bytes | BaseException:
        server = WebServer(echo, allowance, wall_ms=lambda: 1)
        reader, writer = await asyncio.open_connection("127.0.0.1", await server.listen("127.0.0.1", 0))
        dropped = asyncio.ensure_future(reader.read(1))
        writer.write(HALF)
        async with asyncio.timeout(10):
            while not dropped.done():
                writer.write(b"a")
                await asyncio.wait([dropped], timeout=0.01)
        writer.close()
        await server.stop()
        return (await asyncio.gather(dropped, return_exceptions=True))[0]

    ended = asyncio.run(drip())
    assert ended == b"" or isinstance(ended, ConnectionResetError)


def test_only_who_has_logged_in_may_keep_still_between_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "STRANGER_IDLE_TIMEOUT_S", 0.1)
    asked = b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n"

    async def answer(request: Request) -> Response:
        if request.target == "/in":
            request.user = UserRecord("u", None)
        return Response(200)

    async def talk() -> list[bytes]:
        server = WebServer(answer, allowance, wall_ms=lambda: 1)
        port = await server.listen("127.0.0.1", 0)
        async with asyncio.timeout(10):
            known, to_known = await asyncio.open_connection("127.0.0.1", port)
            to_known.write(asked % b"/in")
            first = await known.readuntil(b"\r\n\r\n")
            stranger, to_stranger = await asyncio.open_connection("127.0.0.1", port)
            to_stranger.write(asked % b"/")
            rest = await stranger.read(-1)  # until it is dropped
            to_known.write(asked % b"/")
            second = await known.readuntil(b"\r\n\r\n")
        to_known.close()
        to_stranger.close()
        await server.stop()
        return [first, rest, second]

    assert [reply.count(b"HTTP/1.1 200") for reply in asyncio.run(talk())] == [1, 1, 1]


def request(target: str = "/", body: bytes = b"", **headers: str) -> Request:
    encoded = {name.encode(): value.encode() for name, value in headers.items()}
    return Request("GET", target, encoded, body, client=LOCAL, now=1)


def test_basic_credentials_are_read() -> None:
    token = base64.b64encode(b"guest:pa:ss").decode()
    assert request(authorization=f"Basic {token}").credentials() == ("guest", b"pa:ss")


def test_a_query_says_last_what_it_asks_for() -> None:
    found = request("/?sort=name&sort=vhost&name=&use_regex=true&pagination=1")
    assert [found.asked(name) for name in ("sort", "name", "columns")] == ["vhost", "", None]
    assert (found.asks("use_regex"), found.asks("pagination"), found.asks("page")) == (True, False, False)


@pytest.mark.parametrize("value", ["", "Bearer x", "Basic !!!", "Basic " + base64.b64encode(b"guest").decode()])
def test_bad_credentials_are_401(value: str) -> None:
    with pytest.raises(HttpError) as caught:
        request(authorization=value).credentials()
    assert caught.value.status == 401


@pytest.mark.parametrize("body", [b"{", b"[1]", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_object_is_400(body: bytes) -> None:
    with pytest.raises(HttpError) as caught:
        request(body=body).json_object()
    assert caught.value.status == 400


def test_the_router_names_parts_and_says_what_would_be_allowed() -> None:
    router = WebRouter()
    router.add("GET", "/api/vhosts/{name}", echo)
    router.add("PUT", "/api/vhosts/{name}", echo)
    route, named = router.find(request("/api/vhosts/%2F"))
    assert (route.method, named) == ("GET", {"name": "/"})
    with pytest.raises(HttpError, match="POST is not possible here, GET, PUT is") as caught:
        router.find(Request("POST", "/api/vhosts/a", {}, b"", client=LOCAL, now=1))
    assert caught.value.status == 405
    assert router.find(Request("HEAD", "/api/vhosts/a", {}, b"", client=LOCAL, now=1))[0].method == "GET"
    with pytest.raises(HttpError) as missing:
        router.find(request("/api/nothing"))
    assert missing.value.status == 404


@pytest.mark.parametrize(
    "target", [b"//[", b"http://[::1", "//a\u2100b/".encode(), b"/api/vhosts/%FF", b"/api/queues?name=%FF"]
)
def test_a_target_that_is_no_url_is_a_bad_request(target: bytes, caplog: pytest.LogCaptureFixture) -> None:
    reply = exchange(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 400")
    assert not caplog.records


def test_a_reason_that_is_no_utf8_is_answered_all_the_same() -> None:
    async def refuse(request: Request) -> Response:
        raise HttpError(400, "bad_request", "no \udcff here")

    reply = exchange(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", refuse)
    assert reply.startswith(b"HTTP/1.1 400")
    assert b"Not UTF-8, base64 is: " in reply


@pytest.mark.parametrize("target", [b"/api?x=%ff", b"/%ff", b"//["])
def test_an_answer_to_head_has_no_body_though_its_target_cannot_be_read(target: bytes) -> None:
    """It had one, which h11 refuses to send: the connection was closed without a word."""
    reply = exchange(b"HEAD " + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 400") and reply.endswith(b"\r\n\r\n")
