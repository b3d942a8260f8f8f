"""Nobody gets past without credentials, and each call is asked for its own."""

from __future__ import annotations

import base64
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import descriptor
from grpc_health.v1 import health_pb2, health_pb2_grpc

import leveret
from broker.catalog.commands.catalog_commands import PutUser
from broker.records import UserRecord
from front.grpc import relay
from front.grpc.auth import named_by_certificate
from front.grpc.convert import Unauthenticated
from leveret.v1 import admin_pb2, consume_pb2, publish_pb2, topology_pb2
from tests.unit.front.grpc.fakes import bounded, running

FILES = (publish_pb2, consume_pb2, topology_pb2, admin_pb2)
METHODS: list[descriptor.MethodDescriptor] = [
    method for file in FILES for service in file.DESCRIPTOR.services_by_name.values() for method in service.methods
]


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


BAD_CREDENTIALS = {
    "none": (),
    "empty": (("authorization", ""),),
    "another scheme": (("authorization", "Digest abc"),),
    "no token": (("authorization", "Bearer abc"),),
    "no base64": (("authorization", "Basic ???"),),
    "no colon": (("authorization", basic("guest")),),
    "not UTF-8": (("authorization", "Basic " + base64.b64encode(b"\xff:x").decode()),),
    "wrong password": (("authorization", basic("guest:wrong")),),
    "unknown user": (("authorization", basic("nobody:guest")),),
    "given twice": (("authorization", basic("guest:guest")), ("authorization", basic("guest:guest"))),
    "very long": (("authorization", basic("guest:" + "x" * 9_300)),),
}


async def refusal(channel: grpc.aio.Channel, method: descriptor.MethodDescriptor, metadata: Any) -> grpc.StatusCode:
    path = f"/{method.containing_service.full_name}/{method.name}"
    if method.client_streaming:
        call: Any = channel.stream_stream(path)(metadata=metadata)
    else:
        call = channel.unary_unary(path)(b"", metadata=metadata)
    code: grpc.StatusCode = await call.code()
    return code


def test_every_method_of_every_service_refuses_bad_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "STRANGER_BYTES", 16 << 20)  # who fails hundreds of times on one connection is held up

    async def run() -> None:
        async with running() as server, grpc.aio.insecure_channel(server.target) as channel:
            for method in METHODS:
                for what, metadata in BAD_CREDENTIALS.items():
                    code = await refusal(channel, method, metadata)
                    assert code is grpc.StatusCode.UNAUTHENTICATED, f"{method.full_name} with {what}: {code}"
            assert server.broker.open_connections == []

    assert len(METHODS) >= 35
    bounded(run(), 60)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_a_token_is_credentials_too(scheme: str) -> None:
    async def run() -> None:
        async with running() as server, grpc.aio.insecure_channel(server.target) as channel:
            credentials = (("authorization", f"{scheme} guest"),)
            call = channel.unary_unary("/leveret.v1.Admin/WhoAmI")(b"", metadata=credentials)
            assert await call.code() is grpc.StatusCode.OK

    bounded(run())


def test_a_password_that_cannot_be_checked_now_is_not_called_wrong() -> None:
    async def run() -> None:
        async with running() as server, grpc.aio.insecure_channel(server.target) as channel:
            server.broker.busy = True
            codes = {
                await refusal(channel, method, (("authorization", basic("guest:guest")),)) for method in METHODS[:3]
            }
            assert codes == {grpc.StatusCode.RESOURCE_EXHAUSTED}

    bounded(run())


def test_a_call_without_its_request_is_refused() -> None:
    async def run() -> None:
        async with running() as server, grpc.aio.insecure_channel(server.target) as channel:
            call: Any = channel.stream_unary("/leveret.v1.Admin/WhoAmI")(
                metadata=(("authorization", basic("guest:guest")),)
            )
            await call.done_writing()
            assert (await call.code(), await call.details()) == (
                grpc.StatusCode.INVALID_ARGUMENT, "the call ended without its request",
            )  # fmt: skip

    bounded(run())


def test_a_large_request_of_a_stranger_is_not_even_read() -> None:
    async def run() -> None:
        async with running() as server, grpc.aio.insecure_channel(server.target) as channel:
            call: Any = channel.stream_unary("/leveret.v1.Admin/PutUser")()
            assert await call.code() is grpc.StatusCode.UNAUTHENTICATED, "answered before any request was sent"

    bounded(run())


def test_health_is_open_to_everybody() -> None:
    async def run() -> None:
        async with running() as server, grpc.aio.insecure_channel(server.target) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            for service in ("", "leveret.v1.Publisher", "leveret.v1.Admin"):
                answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))
                assert answer.status == health_pb2.HealthCheckResponse.SERVING

    bounded(run())


def test_every_call_is_verified_so_a_changed_password_counts_at_once() -> None:
    async def run() -> None:
        async with running() as server, leveret.connect(server.target) as node:
            await node.topology.queues()
            assert server.broker.authentications == 2
            server.broker.catalog.apply(PutUser(UserRecord("guest", "hash of other", ("administrator",))))
            with pytest.raises(leveret.Unauthenticated, match="invalid credentials"):
                await node.topology.queues()

    bounded(run())


class Presented:
    """A call over TLS with this name in its certificate, which somebody has verified, or nobody."""

    def __init__(self, name: str, verified: bool) -> None:
        self._name = name.encode()
        self._verified = verified

    def auth_context(self) -> dict[str, tuple[bytes, ...]]:
        return {"transport_security_type": (b"ssl",), "x509_common_name": (self._name,)}

    def peer_identities(self) -> tuple[bytes, ...] | None:
        return (self._name,) if self._verified else None


def test_the_name_in_a_certificate_that_nobody_has_verified_is_no_login() -> None:
    """Everybody can write himself one."""
    verified: Any = Presented("guest", verified=True)
    assert named_by_certificate(verified) == "guest"
    unverified: Any = Presented("guest", verified=False)
    with pytest.raises(Unauthenticated, match="no credentials"):
        named_by_certificate(unverified)
