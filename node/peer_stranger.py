"""Calls to nodes of which this one knows the address only, or that do not know this one's number: Greet and Join.

Both sides prove that they know the cluster's secret, and that request and answer are the other's (node/peer_auth.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from leveret.v1 import peer_pb2, peer_pb2_grpc
from node.peer_auth import NONCE_BYTES, NotProven, Secret, StrangerCalling
from node.peer_dialer import challenge_of, channel_options, channel_to, text_of
from node.peer_link import LinkLimits
from node.peer_server import GREET, JOIN

A = TypeVar("A", bound=Message)

JOIN_TIMEOUT_S = 15.0  # the cluster has to agree on it


class NoAnswer(Exception):
    """The node did not answer, or not as one of this cluster; the text says why."""


@dataclass(slots=True, frozen=True)
class Stranger:
    """Calls any address. Everything raises NoAnswer."""

    secret: Secret
    random_bytes: Callable[[int], bytes]
    credentials: grpc.ChannelCredentials | None = None

    async def greet(self, address: str, greeting: peer_pb2.Greeting, timeout_s: float) -> peer_pb2.Greeted:
        return await self._call(address, GREET, greeting, peer_pb2.Greeted, timeout_s)

    async def join(self, address: str, request: peer_pb2.JoinRequest) -> peer_pb2.JoinResponse:
        return await self._call(address, JOIN, request, peer_pb2.JoinResponse, JOIN_TIMEOUT_S)

    async def _call(self, address: str, method: str, message: Message, answer_kind: type[A], timeout_s: float) -> A:
        request = message.SerializeToString()
        try:
            async with (
                asyncio.timeout(timeout_s),
                channel_to(address, self.credentials, channel_options(LinkLimits())) as channel,
            ):
                challenge = await challenge_of(peer_pb2_grpc.PeerStub(channel))  # type: ignore[no-untyped-call]
                calling = StrangerCalling(self.secret, method, request, challenge, self.random_bytes(NONCE_BYTES))
                ask: Any = channel.unary_unary(method)
                call = ask(request, metadata=calling.metadata())
                answer = await call
                calling.check_answer(text_of(await call.trailing_metadata()), answer)
                return answer_kind.FromString(answer)
        except grpc.aio.AioRpcError as error:
            raise NoAnswer(f"{error.code().name.lower()}: {error.details()}") from error
        except NotProven as error:
            raise NoAnswer(str(error)) from error
        except TimeoutError as error:
            raise NoAnswer(f"no answer within {timeout_s:g} s") from error
        except DecodeError as error:
            raise NoAnswer(f"it answers what cannot be read: {error}") from error
