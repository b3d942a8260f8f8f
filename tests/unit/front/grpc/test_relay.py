"""front/grpc/relay.py: what strangers can have a node keep, for how long, and that clients are not held to it."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2_grpc

import leveret
from front.grpc import relay
from front.grpc.auth import OPEN_CALLS_MAX
from front.grpc.server import GrpcLimits
from tests.unit.front.grpc.fakes import Running, bounded, running, until

IDLE_MS = 1_000  # of who calls nothing; a login takes some tens of milliseconds, and ten times that on a busy machine
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


def relay_of(server: Running) -> relay.Relay:
    return server.server._relay


async def connect(server: Running) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", server.server.port)


async def hung_up(reader: asyncio.StreamReader) -> None:
    """Whatever is said until then."""
    try:
        while await reader.read(65_536):
            pass
    except ConnectionResetError:
        pass


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def headers(path: bytes) -> bytes:
    pairs = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path),
        (b":authority", b"x"),
        (b"te", b"trailers"),
    ]
    pairs.append((b"content-type", b"application/grpc"))
    return b"".join(b"\0" + bytes((len(key),)) + key + bytes((len(value),)) + value for key, value in pairs)


@pytest.mark.parametrize("said", [b"", PREFACE, PREFACE[:10]], ids=["nothing", "preface", "half of it"])
def test_who_calls_nothing_is_closed(said: bytes) -> None:
    async def run() -> None:
        async with running(limits=GrpcLimits(handshake_timeout_ms=300, connection_idle_max_ms=300)) as server:
            reader, writer = await connect(server)
            writer.write(said)
            await hung_up(reader)
            assert not relay_of(server).gate.strangers

    bounded(run())


def test_a_stranger_who_watches_the_health_is_closed_in_the_end() -> None:
    async def run() -> None:
        limits = GrpcLimits(connection_idle_max_ms=IDLE_MS)
        async with running(limits=limits) as server, grpc.aio.insecure_channel(server.target) as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=""))
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
            reading = asyncio.ensure_future(watch.read())
            assert (await asyncio.wait({reading}, timeout=10))[0], "it watches for ever"
            with pytest.raises(grpc.aio.AioRpcError) as ended:
                await reading
            assert ended.value.code() is grpc.StatusCode.UNAVAILABLE

    bounded(run())


@pytest.mark.parametrize(
    "path", [b"/grpc.health.v1.Health/Check", b"/leveret.v1.Publisher/Publish", b"/leveret.v1.Admin/WhoAmI"]
)
def test_of_what_a_stranger_sends_only_a_little_is_read(path: bytes) -> None:
    """An unfinished message of 17 MiB, without a login."""

    async def run() -> None:
        async with running() as server:
            began = asyncio.get_running_loop().time()
            _, writer = await connect(server)
            writer.write(PREFACE + frame(1, 4, 1, headers(path)) + frame(0, 0, 1, b"\0" + struct.pack(">I", 17 << 20)))
            writer.write(frame(0, 0, 1, bytes(16_000)) * 200)
            await until(lambda: len(relay_of(server)._open) == 1)
            (side,) = relay_of(server)._open
            await until(lambda: side.allowed == 0)
            await asyncio.sleep(3 * relay.SWEEP_S)
            took_s = asyncio.get_running_loop().time() - began
            assert side.bytes_read <= relay.STRANGER_BYTES + (took_s + relay.SWEEP_S) * relay.STRANGER_BYTES_PER_S
            writer.close()

    bounded(run())


def test_a_client_is_held_to_none_of_it() -> None:
    async def run() -> None:
        limits = GrpcLimits(connection_idle_max_ms=IDLE_MS, unauthenticated_connections=1)
        async with running(limits=limits) as server, leveret.connect(server.target) as node:
            await node.topology.declare_queue("q")
            async with await node.publisher() as publisher:
                for _ in range(5):
                    await publisher.publish(bytes(1 << 20), routing_key="q")
                await asyncio.sleep(IDLE_MS / 1000 + 2 * relay.SWEEP_S)
                await publisher.publish(b"later", routing_key="q")
            assert relay_of(server).gate.known == 1 and not relay_of(server).gate.strangers

    bounded(run())


def test_a_connection_has_few_calls_without_a_login() -> None:
    async def run() -> None:
        async with running() as server, grpc.aio.insecure_channel(server.target) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            watches = [health.Watch(health_pb2.HealthCheckRequest(service="")) for _ in range(OPEN_CALLS_MAX)]
            for watch in watches:
                await watch.read()
            for one_more in (
                health.Watch(health_pb2.HealthCheckRequest(service="")),
                reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(),
            ):
                assert await one_more.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            watches[0].cancel()
            (side,) = relay_of(server)._open
            await until(lambda: side.open_calls < OPEN_CALLS_MAX)
            assert await health.Check(health_pb2.HealthCheckRequest(service="")).code() is grpc.StatusCode.OK

    bounded(run())


def test_strangers_give_way_to_each_other_and_clients_get_in() -> None:
    async def run() -> None:
        limits = GrpcLimits(unauthenticated_connections=20, unauthenticated_per_source=10)
        async with running(limits=limits) as server:
            silent = [await connect(server) for _ in range(50)]
            assert relay_of(server).gate.strangers == 10
            await asyncio.sleep(0.3)  # their grace period is over
            async with leveret.connect(server.target) as node:
                assert (await node.admin.who_am_i()).name == "guest"
            for _, writer in silent:
                writer.close()

    bounded(run())


def test_nothing_is_left_behind() -> None:
    async def run() -> Path:
        async with running() as server:
            directory = Path(relay_of(server).path).parent
            assert directory.stat().st_mode & 0o777 == 0o700, "no other user can go around the relay"
            async with leveret.connect(server.target) as node:
                await node.admin.who_am_i()
        await until(lambda: not relay_of(server)._open)
        assert not relay_of(server)._sides
        return directory

    assert not bounded(run()).exists()
