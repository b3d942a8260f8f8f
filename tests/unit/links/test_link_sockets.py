"""links/sockets.py: files and names of hosts that a URI says, which anybody may have chosen who declares a link."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from links.sockets import PEM_BYTES_MAX, LinkSockets, _LinkProtocol, client_context
from links.world import LinkSocket, TlsTerms
from tests.bare_certificates import as_newer_python, bare_server


@pytest.mark.parametrize("which", ["ca_file", "certificate_file", "key_file"])
def test_what_has_no_end_is_not_read(which: str, tmp_path: Path) -> None:
    """The event loop read /dev/zero for ever, on each node that became the owner of the shovel."""
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    large.touch()
    os.truncate(large, PEM_BYTES_MAX + 1)
    for path in ("/dev/zero", str(pipe), str(large), str(tmp_path)):
        with pytest.raises(ValueError, match="is no file of PEM"):
            client_context(TlsTerms("h", verify=True, **{which: path}))


def test_a_file_that_is_not_there_is_said() -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        client_context(TlsTerms("h", verify=True, ca_file="/nowhere.pem"))


class TestKey:
    @pytest.fixture
    def files(self, tmp_path: Path) -> dict[str, str]:
        """Of a certificate whose key asks for the password `its own`."""
        issued = trustme.CA().issue_cert("client.example")
        issued.cert_chain_pems[0].write_to_path(str(tmp_path / "client.pem"))
        key = load_pem_private_key(issued.private_key_pem.bytes(), None)
        encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"its own"))
        (tmp_path / "client.key").write_bytes(encrypted)
        return {"certificate_file": str(tmp_path / "client.pem"), "key_file": str(tmp_path / "client.key")}

    def test_one_with_a_password_is_read_by_it(self, files: dict[str, str]) -> None:
        """It was ignored, and the shovel said `PEM lib` and nothing more."""
        client_context(TlsTerms("h", verify=True, **files, key_password="its own"))

    @pytest.mark.parametrize("password", ["", "another"])
    def test_one_that_needs_another_password_is_said_to(self, files: dict[str, str], password: str) -> None:
        with pytest.raises(ValueError, match="the key needs another password"):
            client_context(TlsTerms("h", verify=True, **files, key_password=password))


class Told:
    """A user of a connection, which ends when it is connected or is lost."""

    def __init__(self) -> None:
        self.what: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def connected(self, wire: LinkSocket) -> None:
        wire.abort()
        if not self.what.done():
            self.what.set_result("connected")

    def received(self, data: bytes) -> None:
        raise AssertionError(f"nobody said {data!r}")

    def writable(self, writable: bool) -> None:
        raise AssertionError("nothing is written")

    def lost(self, reason: str) -> None:
        if not self.what.done():
            self.what.set_result(reason)


def connected_to(serving: ssl.SSLContext, terms: TlsTerms) -> str:
    async def run() -> str:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=serving)
        async with server:
            told, port = Told(), server.sockets[0].getsockname()[1]
            LinkSockets(lambda: None).connect("127.0.0.1", port, terms, 10.0, told)
            return await asyncio.wait_for(told.what, 10.0)

    return asyncio.run(run())


def test_a_certificate_without_identifiers_of_keys_is_taken_by_every_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_newer_python(monkeypatch)
    serving, ca_file = bare_server("broker.example", tmp_path)
    assert connected_to(serving, TlsTerms("broker.example", verify=True, ca_file=str(ca_file))) == "connected"


def test_an_intermediate_authority_is_trusted_without_its_root(tmp_path: Path) -> None:
    intermediate = trustme.CA().create_child_ca()
    intermediate.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    intermediate.issue_cert("broker.example").configure_cert(serving)
    terms = TlsTerms("broker.example", verify=True, ca_file=str(tmp_path / "ca.pem"))
    assert connected_to(serving, terms) == "connected"


class TestName:
    @pytest.fixture
    def authority(self) -> trustme.CA:
        return trustme.CA()

    def connect(self, authority: trustme.CA, folder: Path, believes: trustme.CA, **terms: Any) -> str:
        """What comes of a connection to a broker whose certificate is of another host."""
        believes.cert_pem.write_to_path(str(folder / "ca.pem"))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("other.example").configure_cert(context)
        own = TlsTerms(**({"server_name": "127.0.0.1"} | terms), verify=True, ca_file=str(folder / "ca.pem"))
        return connected_to(context, own)

    def test_the_certificate_has_to_be_of_it(self, authority: trustme.CA, tmp_path: Path) -> None:
        assert "certificate verify failed" in self.connect(authority, tmp_path, authority)

    def test_or_of_none_where_the_uri_says_so(self, authority: trustme.CA, tmp_path: Path) -> None:
        assert self.connect(authority, tmp_path, authority, server_name="", checks_name=False) == "connected"

    def test_whose_authority_is_believed_then_too(self, authority: trustme.CA, tmp_path: Path) -> None:
        told = self.connect(authority, tmp_path, trustme.CA(), server_name="", checks_name=False)
        assert "certificate verify failed" in told

    def test_one_with_a_nul_is_said(self, authority: trustme.CA, tmp_path: Path) -> None:
        """The task died of a TypeError, and the shovel was `starting` until its minute was over."""
        assert "NUL" in self.connect(authority, tmp_path, authority, server_name="a\0b")


def test_who_writes_hears_when_the_other_side_takes_no_more_and_when_it_does() -> None:
    class User:
        def __init__(self) -> None:
            self.lasting: list[bool] = []
            self.socket: LinkSocket | None = None

        def connected(self, socket: LinkSocket) -> None:
            self.socket = socket

        def writable(self, writable: bool) -> None:
            self.lasting.append(writable)
            changed.set()

        def received(self, data: bytes) -> None:
            raise AssertionError("nothing was sent")

        def lost(self, reason: str) -> None:
            changed.set()

    changed = asyncio.Event()

    async def run() -> None:
        user, taken = User(), asyncio.Event()

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await taken.wait()
            while await reader.read(1 << 20):
                pass
            writer.close()

        async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            await asyncio.get_running_loop().create_connection(lambda: _LinkProtocol(user), "127.0.0.1", port)
            assert user.socket is not None
            while not user.lasting:
                user.socket.write(bytes(1 << 20))
            taken.set()
            while len(user.lasting) < 2:
                changed.clear()
                await asyncio.wait_for(changed.wait(), 10)
            user.socket.abort()
        assert user.lasting == [False, True]

    asyncio.run(run())
