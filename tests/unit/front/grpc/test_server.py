"""Listening, TLS, limits, reflection, and the end."""

from __future__ import annotations

import asyncio
import base64

import grpc
import grpc.aio
import pytest
import trustme
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

import leveret
from front.grpc.server import SERVICES, CannotListenToGrpc, GrpcLimits, Tls
from leveret import errors
from leveret.v1 import admin_pb2, admin_pb2_grpc, consume_pb2, publish_pb2, topology_pb2
from tests.unit.front.grpc.fakes import bounded, running


def test_reflection_lists_the_services() -> None:
    async def run() -> None:
        async with running() as server, grpc.aio.insecure_channel(server.target) as channel:
            call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo()
            await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
            answer = await call.read()
            assert set(SERVICES) <= {service.name for service in answer.list_services_response.service}

    bounded(run())


def certificates() -> tuple[trustme.CA, Tls]:
    ca = trustme.CA()
    server = ca.issue_cert("localhost", "127.0.0.1")
    return ca, Tls(server.cert_chain_pems[0].bytes(), server.private_key_pem.bytes(), ca.cert_pem.bytes())


def test_tls_is_believed_by_its_authority_only() -> None:
    async def run() -> None:
        ca, tls = certificates()
        async with running(tls) as server:
            async with leveret.connect(server.target, tls=leveret.Tls(ca=ca.cert_pem.bytes())) as node:
                assert (await node.admin.who_am_i()).name == "guest"
            for trust in (None, leveret.Tls(ca=trustme.CA().cert_pem.bytes())):
                with pytest.raises(errors.ConnectionLost):
                    async with leveret.connect(server.target, tls=trust, timeout_s=5):
                        raise AssertionError("a node was believed that should not be")

    bounded(run())


def test_a_client_certificate_stands_for_its_common_name() -> None:
    async def run() -> None:
        ca, tls = certificates()
        tls = Tls(tls.certificate, tls.key, tls.ca, verify_peer=True)
        own = ca.issue_cert("client.example", common_name="guest")
        credentials = grpc.ssl_channel_credentials(
            ca.cert_pem.bytes(), own.private_key_pem.bytes(), own.cert_chain_pems[0].bytes()
        )
        async with running(tls) as server, grpc.aio.secure_channel(server.target, credentials) as channel:
            answer = await admin_pb2_grpc.AdminStub(channel).WhoAmI(admin_pb2.WhoAmIRequest())
            assert answer.user == "guest"

    bounded(run())


def test_a_message_above_the_limit_is_refused_and_the_next_one_taken() -> None:
    async def run() -> None:
        limits = GrpcLimits(message_bytes_max=1000)
        async with running(limits=limits) as server, leveret.connect(server.target) as node:
            await node.topology.declare_queue("q")
            async with await node.publisher() as publisher:
                publisher._message_bytes_max = 2000  # a client that does not keep to what it was told
                with pytest.raises(leveret.PublishRefused, match="a message of 1001 bytes is larger than 1000"):
                    await publisher.publish(bytes(1001), routing_key="q")
                await publisher.publish(bytes(1000), routing_key="q")

    bounded(run())


def test_connections_that_say_nothing_or_call_nothing_do_not_stay() -> None:
    """gRPC cannot be told how many connections there may be: so strangers are at least not kept."""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")

    async def hung_up(target: str, said: bytes) -> None:
        host, _, port = target.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(said)
        async with asyncio.timeout(10):
            while await reader.read(65_536):
                pass
        writer.close()

    async def run() -> None:
        limits = GrpcLimits(handshake_timeout_ms=200, connection_idle_max_ms=1_000)
        async with running(limits=limits) as server:
            await asyncio.gather(*[hung_up(server.target, said) for said in (b"", b"P", preface)])

    bounded(run())


def test_a_client_whose_idle_connection_was_closed_calls_as_if_nothing_had_been() -> None:
    async def run() -> None:
        async with (
            running(limits=GrpcLimits(connection_idle_max_ms=1_000)) as server,
            grpc.aio.insecure_channel(server.target) as channel,
        ):
            stub = reflection_pb2_grpc.ServerReflectionStub(channel)

            async def names() -> int:
                call = stub.ServerReflectionInfo()
                await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
                answer = await call.read()
                await call.done_writing()
                return len(answer.list_services_response.service)

            before = await names()
            while channel.get_state() is grpc.ChannelConnectivity.READY:
                await channel.wait_for_state_change(grpc.ChannelConnectivity.READY)
            assert await names() == before

    bounded(run())


def test_metadata_above_the_limit_ends_the_call() -> None:
    async def run() -> None:
        async with running() as server, grpc.aio.insecure_channel(server.target) as channel:
            padding = "x" * 20_000
            basic = base64.b64encode(b"guest:guest").decode()
            call = admin_pb2_grpc.AdminStub(channel).WhoAmI(
                admin_pb2.WhoAmIRequest(), metadata=(("authorization", f"Basic {basic}"), ("padding", padding))
            )
            assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

    bounded(run())


def test_an_address_in_use_is_named() -> None:
    async def run() -> None:
        async with running() as server:
            from tests.unit.front.grpc import fakes

            with pytest.raises(CannotListenToGrpc, match=f"gRPC cannot listen on {server.target}"):
                await fakes.serve(
                    server.broker, fakes.admin_ports(server.broker), server.target, None,
                    fakes.logging.getLogger("test"), fakes.FixedClock(),
                )  # fmt: skip

    bounded(run())


def test_stopping_ends_streams_and_closes_their_sessions() -> None:
    async def run() -> None:
        async with running() as server, leveret.connect(server.target) as node:
            await node.topology.declare_queue("q")
            consumer = await node.consume("q").start()
            await server.server.stop(grace_s=5)
            with pytest.raises(leveret.ConnectionLost, match="node n1 is stopping"):
                await anext(consumer)
            assert server.broker.open_sessions == []

    bounded(run())


def test_bytes_that_are_no_request_are_refused_by_every_method_and_break_nothing() -> None:
    async def run() -> None:
        async with running() as server, grpc.aio.insecure_channel(server.target) as channel:
            metadata = (("authorization", "Basic " + base64.b64encode(b"guest:guest").decode()),)
            for file in (admin_pb2, consume_pb2, publish_pb2, topology_pb2):
                for service in file.DESCRIPTOR.services_by_name.values():
                    for method in service.methods:
                        call = channel.stream_stream(f"/{service.full_name}/{method.name}")(metadata=metadata)
                        await call.write(b"\xff\xff\xff")
                        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT, method.full_name
            assert server.broker.open_connections == []
            async with leveret.connect(server.target) as node:
                assert await node.topology.queues() == []

    bounded(run())
