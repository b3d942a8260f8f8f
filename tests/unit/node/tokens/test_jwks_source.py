"""Where keys may be read from, and that a provider that is slow, large or wrong is given up."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trustme

from node.config import Oauth2Section
from node.config_tokens import token_settings
from node.tokens import jwks_source
from node.tokens.jwks_source import BadUrl, JwksSource, check_url
from tests.bare_certificates import as_newer_python, bare_server

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Fetched = tuple[bytes | None, str]
BODY = b'{"keys": []}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"


def answering(content: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(content)
        await writer.drain()
        writer.close()

    return serve


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


def fetched(serve: Serve, *, tls: ssl.SSLContext | None = None, trusted: ssl.SSLContext | None = None) -> Fetched:
    return fetched_by(lambda url: JwksSource(url, trusted or ssl.create_default_context()), serve, tls)


def fetched_by(source_of: Callable[[str], JwksSource], serve: Serve, tls: ssl.SSLContext | None) -> Fetched:
    async def run() -> Fetched:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
        port = server.sockets[0].getsockname()[1]
        answer: asyncio.Future[Fetched] = asyncio.get_running_loop().create_future()
        source = source_of(f"{'http' if tls is None else 'https'}://localhost:{port}/keys?a=1")
        source.fetch(lambda content, why: answer.set_result((content, why)))
        async with server, asyncio.timeout(20):
            return await answer

    return asyncio.run(run())


def test_what_the_provider_publishes_is_read() -> None:
    assert fetched(answering(HEAD % len(BODY) + BODY)) == (BODY, "")
    assert fetched(answering(b"HTTP/1.1 200 OK\r\n\r\n" + BODY)) == (BODY, "")
    chunked = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n"
        + BODY[:6]
        + b"\r\n6\r\n"
        + BODY[6:]
        + b"\r\n0\r\n\r\n"
    )
    assert fetched(answering(chunked)) == (BODY, "")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n\r\n", "status 302"),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "status 503"),
        (HEAD % (1 << 20) + b"x" * (1 << 20), "more than 262144 bytes"),
        (HEAD % 100 + b"x", ""),
        (b"SSH-2.0-OpenSSH\r\n", ""),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1_000_000, ""),
        (b"", ""),
    ],
)
def test_a_provider_that_answers_with_something_else_gives_no_keys(content: bytes, why: str) -> None:
    body, said = fetched(answering(content))
    assert body is None and said and why in said


def test_a_provider_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks_source, "FETCH_TIMEOUT_S", 0.1)
    assert fetched(silent) == (None, "TimeoutError")


def test_its_certificate_is_verified() -> None:
    authority, other = trustme.CA(), trustme.CA()
    certificate = authority.issue_cert("localhost")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(serving)
    right, wrong = ssl.create_default_context(), ssl.create_default_context()
    authority.configure_trust(right)
    other.configure_trust(wrong)
    serve = answering(HEAD % len(BODY) + BODY)
    assert fetched(serve, tls=serving, trusted=right) == (BODY, "")
    content, why = fetched(serve, tls=serving, trusted=wrong)
    assert content is None and "CERTIFICATE_VERIFY_FAILED" in why


def test_a_certificate_without_identifiers_of_keys_is_taken_by_every_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_newer_python(monkeypatch)
    serving, ca_file = bare_server("localhost", tmp_path)

    def configured(url: str) -> JwksSource:
        source = token_settings(Oauth2Section(resource_server_id="b", jwks_url=url, jwks_ca=str(ca_file))).source
        assert source is not None
        return source

    assert fetched_by(configured, answering(HEAD % len(BODY) + BODY), serving) == (BODY, "")


REFUSED_URLS = [
    "", "keys", "http://idp.example.com/keys", "http://127.0.0.1.example.com/", "file:///etc/passwd", "https://",
    "https://[x/", "https://h:99999/",
]  # fmt: skip


@pytest.mark.parametrize("url", REFUSED_URLS)
def test_keys_are_read_over_https_or_from_this_machine(url: str) -> None:
    with pytest.raises(BadUrl):
        check_url(url)


def test_urls_of_providers() -> None:
    for url in ("https://idp.example.com/keys", "http://127.0.0.1:8080/keys", "http://[::1]/", "http://localhost/"):
        check_url(url)
