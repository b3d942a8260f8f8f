"""TLS on a real node: AMQP and gRPC, EXTERNAL by the client's certificate, and who counts as local."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pika
import pika.credentials
import pytest
import trustme

import leveret
from tests.running_node import RunningNode, running_node

CLIENT = "rabbit.example"
CONFIG = """
[listen]
amqps = ["127.0.0.1:0"]
[tls]
certificate = "{folder}/node.pem"
key = "{folder}/node.key"
ca = "{folder}/ca.pem"
grpc = true
"""


@dataclass
class Authority:
    folder: Path
    ca: trustme.CA

    def client_context(self, *, with_certificate: bool) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        if with_certificate:
            context.load_cert_chain(self.folder / "client.pem", self.folder / "client.key")
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    folder = tmp_path_factory.mktemp("tls")
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    for name, issued in (
        ("node", ca.issue_cert("127.0.0.1", "localhost")),
        ("client", ca.issue_cert(CLIENT, common_name=CLIENT)),
    ):
        issued.private_key_pem.write_to_path(str(folder / f"{name}.key"))
        for position, part in enumerate(issued.cert_chain_pems):
            part.write_to_path(str(folder / f"{name}.pem"), append=position > 0)
    (folder / "leveret.toml").write_text(CONFIG.format(folder=folder))
    return Authority(folder, ca)


@pytest.fixture(scope="module")
def tls_node(authority: Authority) -> Iterator[RunningNode]:
    with running_node("--config", str(authority.folder / "leveret.toml")) as node:
        yield node


def amqps(node: RunningNode, context: ssl.SSLContext, credentials: object = None) -> pika.BlockingConnection:
    host, port = node.addresses["amqps"]
    parameters = pika.ConnectionParameters(
        host,
        port,
        ssl_options=pika.SSLOptions(context, host),
        credentials=credentials or pika.PlainCredentials("guest", "guest"),
        blocked_connection_timeout=20,
        socket_timeout=20,
    )
    return pika.BlockingConnection(parameters)


def with_grpc(node: RunningNode, tls: leveret.Tls | None) -> list[leveret.GotMessage]:
    """Publish and take one message over gRPC."""

    async def run() -> list[leveret.GotMessage]:
        target = f"{node.grpc[0]}:{node.grpc[1]}"
        async with asyncio.timeout(30), leveret.connect(target, tls=tls, timeout_s=5) as client:
            await client.topology.declare_queue("tls.grpc")
            publisher = await client.publisher()
            await publisher.publish(b"sealed", routing_key="tls.grpc")
            return await client.get("tls.grpc", requeue=False)

    return asyncio.run(run())


def test_pika_publishes_and_gets_over_tls(tls_node: RunningNode, authority: Authority) -> None:
    connection = amqps(tls_node, authority.client_context(with_certificate=False))
    channel = connection.channel()
    channel.queue_declare("tls.amqp", durable=True)
    channel.confirm_delivery()
    body = b"x" * 300_000
    channel.basic_publish("", "tls.amqp", body, pika.BasicProperties(delivery_mode=2), mandatory=True)
    assert channel.basic_get("tls.amqp", auto_ack=True)[2] == body
    connection.close()


def test_a_client_that_believes_another_authority_does_not_connect(tls_node: RunningNode) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        amqps(tls_node, ssl.create_default_context())


def test_external_takes_the_user_from_the_certificate(tls_node: RunningNode, authority: Authority) -> None:
    external = pika.credentials.ExternalCredentials()
    context = authority.client_context(with_certificate=True)
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        amqps(tls_node, context, external)  # the certificate is right, but there is no such user yet

    async def add_user() -> None:
        tls = leveret.Tls(ca=(authority.folder / "ca.pem").read_bytes())
        async with leveret.connect(f"{tls_node.grpc[0]}:{tls_node.grpc[1]}", tls=tls) as client:
            await client.admin.add_user(CLIENT, None)  # no password lets this user in
            await client.admin.set_permissions(CLIENT, ".*", ".*", ".*")

    asyncio.run(add_user())
    connection = amqps(tls_node, context, external)
    connection.channel().queue_declare("tls.external", exclusive=True)
    connection.close()
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        amqps(tls_node, authority.client_context(with_certificate=False), external)


def test_grpc_speaks_tls_and_nothing_else(tls_node: RunningNode, authority: Authority) -> None:
    tls = leveret.Tls(ca=(authority.folder / "ca.pem").read_bytes())
    assert [got.body for got in with_grpc(tls_node, tls)] == [b"sealed"]
    with pytest.raises(leveret.LeveretError):
        with_grpc(tls_node, None)
    with pytest.raises(leveret.LeveretError):
        with_grpc(tls_node, leveret.Tls(ca=trustme.CA().cert_pem.bytes()))


def test_leveretctl_believes_the_authority_it_is_given(tls_node: RunningNode, authority: Authority) -> None:
    command = [
        sys.executable,
        "-m",
        "leveret.ctl",
        "--node",
        f"{tls_node.grpc[0]}:{tls_node.grpc[1]}",
        "--json",
        "status",
    ]
    done = subprocess.run([*command, "--tls-ca", str(authority.folder / "ca.pem")], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    sealed = {one["protocol"] for one in json.loads(done.stdout)["listeners"] if one["tls"]}
    assert sealed == {"amqps", "grpc"}
    assert subprocess.run([*command, "--timeout", "2"], capture_output=True, timeout=60).returncode in (69, 75)
    missing = subprocess.run([*command, "--tls-ca", "/nonexistent.pem"], capture_output=True, timeout=60)
    assert missing.returncode == 78


@contextlib.contextmanager
def balancer(node: RunningNode, source: str) -> Iterator[tuple[str, int]]:
    """A load balancer on loopback that says its one client came from `source`."""

    def relay(read_from: socket.socket, write_to: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := read_from.recv(65_536):
                write_to.sendall(data)
            write_to.shutdown(socket.SHUT_WR)

    def serve() -> None:
        client, _ = listener.accept()
        with client, socket.create_connection(node.amqp) as server:
            server.sendall(f"PROXY TCP4 {source} 203.0.113.1 5000 5672\r\n".encode())
            back = threading.Thread(target=relay, args=(server, client))
            back.start()
            relay(client, server)
            back.join()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()
        thread.join(30)


def test_guest_is_let_in_from_loopback_only_and_others_from_anywhere(tmp_path: Path) -> None:
    config = tmp_path / "leveret.toml"
    config.write_text("[listen]\nproxy_protocol = true\n[amqp]\nauthentication_failure_delay_ms = 0\n")
    with running_node("--config", str(config)) as node:

        async def add_user() -> None:
            async with leveret.connect(f"{node.grpc[0]}:{node.grpc[1]}") as client:
                await client.admin.add_user("app", "secret")
                await client.admin.set_permissions("app", ".*", ".*", ".*")

        asyncio.run(add_user())
        for user, password, source, welcome in (
            ("guest", "guest", "127.0.0.1", True),
            ("guest", "guest", "192.0.2.7", False),
            ("app", "secret", "192.0.2.7", True),
        ):
            with balancer(node, source) as (host, port):
                parameters = pika.ConnectionParameters(
                    host, port, credentials=pika.PlainCredentials(user, password), socket_timeout=20
                )
                if welcome:
                    pika.BlockingConnection(parameters).close()
                else:
                    with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="ACCESS_REFUSED"):
                        pika.BlockingConnection(parameters)


def test_leveretctl_shows_a_certificate_where_one_is_asked_for(authority: Authority, tmp_path: Path) -> None:
    config = tmp_path / "leveret.toml"
    config.write_text(CONFIG.format(folder=authority.folder) + "verify_peer = true\n")
    with running_node("--config", str(config)) as node:

        def ctl(*arguments: str) -> subprocess.CompletedProcess[str]:
            where = ["--tls-ca", "ca.pem", "--node", f"localhost:{node.grpc[1]}", "--json"]
            command = [sys.executable, "-m", "leveret.ctl", *arguments, *where]
            return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=authority.folder)

        ours = ["--tls-certificate", "client.pem", "--tls-key", "client.key"]
        without = ctl("queue", "list", "--timeout", "5")
        assert without.returncode in (69, 75), without
        stranger = ctl("queue", "list", *ours)
        assert stranger.returncode == 67, stranger
        for command in (
            ("user", "add", CLIENT, "--no-password", "--tag", "administrator"),
            ("permission", "set", CLIENT, ".*", ".*", ".*"),
        ):
            done = ctl(*command, *ours, "--user", "guest")
            assert done.returncode == 0, done
        listed = ctl("queue", "list", *ours)
        assert (listed.returncode, json.loads(listed.stdout)) == (0, []), listed
