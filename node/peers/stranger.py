"""Calls to nodes of which this one knows the address only, or that do not know this one's number: greet and join.

Both sides prove that they know the cluster's secret, and that request and answer are the other's (node/peers/handshake.py).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from node.peers import peer_pb2
from node.peers.frames import ANSWER, GREET, JOIN, REQUEST_BYTES_MAX, encode_hello, expect_hello
from node.peers.frames import CHALLENGE as CHALLENGE_HELLO
from node.peers.handshake import CHALLENGE, NONCE_BYTES, Metadata, Secret, StrangerCalling
from node.peers.server import METHODS
from node.peers.socket import HungUp, PeerSocket, connect, outcome
from storage.disk import Buffer

A = TypeVar("A", bound=Message)

JOIN_TIMEOUT_S = 15.0  # the cluster has to agree on it


class NoAnswer(Exception):
    """The node did not answer, or not as one of this cluster; the text says why."""


@dataclass(slots=True, frozen=True)
class Stranger:
    """Calls any address. Everything raises NoAnswer."""

    secret: Secret
    random_bytes: Callable[[int], bytes]
    tls: ssl.SSLContext | None = None

    async def greet(self, address: str, greeting: peer_pb2.Greeting, timeout_s: float) -> peer_pb2.Greeted:
        return await self._call(address, GREET, greeting, peer_pb2.Greeted, timeout_s)

    async def join(self, address: str, request: peer_pb2.JoinRequest) -> peer_pb2.JoinResponse:
        return await self._call(address, JOIN, request, peer_pb2.JoinResponse, JOIN_TIMEOUT_S)

    async def _call(self, address: str, method: int, message: Message, answer_kind: type[A], timeout_s: float) -> A:
        question = _Question(self.secret, method, message.SerializeToString(), self.random_bytes(NONCE_BYTES))
        try:
            async with asyncio.timeout(timeout_s):
                await connect(question.socket, address, self.tls)
                return answer_kind.FromString(await outcome(question.socket, question.answer))
        except HungUp as error:
            raise NoAnswer(str(error)) from error
        except TimeoutError as error:
            raise NoAnswer(f"no answer within {timeout_s:g} s") from error
        except DecodeError as error:
            raise NoAnswer(f"it answers what cannot be read: {error}") from error
        finally:
            question.socket.abort()


class _Question:
    """One connection, for one request. What is wrong with what comes ends the connection."""

    def __init__(self, secret: Secret, method: int, request: bytes, nonce: bytes) -> None:
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.socket = PeerSocket(self._hear_challenge)
        self._secret = secret
        self._method = method
        self._request = request
        self._nonce = nonce

    def _hear_challenge(self, payload: Buffer) -> None:
        challenge = expect_hello(payload, CHALLENGE_HELLO).get(CHALLENGE, "")
        calling = StrangerCalling(self._secret, METHODS[self._method], self._request, challenge, self._nonce)
        self.socket.on_frame = lambda payload: self._hear_proof(calling, payload)
        self.socket.send([encode_hello(self._method, calling.metadata()), self._request])

    def _hear_proof(self, calling: StrangerCalling, payload: Buffer) -> None:
        proof = expect_hello(payload, ANSWER)
        self.socket.accept_frames(REQUEST_BYTES_MAX)
        self.socket.on_frame = lambda payload: self._hear_answer(calling, proof, payload)

    def _hear_answer(self, calling: StrangerCalling, proof: Metadata, said: Buffer) -> None:
        payload = bytes(said)
        calling.check_answer(proof, payload)
        if not self.answer.done():  # by who has given up on it
            self.answer.set_result(payload)
