"""The register machine over gRPC. For tests only: whoever reaches it may do anything."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import grpc.aio

from raft.core.errors import RaftError
from raft.core.membership import RemoveMember
from raft.core.messages import node_of
from tests.raft_node import wire
from tests.raft_node.assemble import RaftNode
from tests.raft_node.gatherer import Gatherer
from tests.raft_node.load import Load
from tests.raft_node.register import Register, put

FILL_ENTRIES = 2_000  # on their way at once

Context = grpc.aio.ServicerContext[bytes, bytes]


class _Replies:
    """Answers to one stream, gathered while the last ones are being sent."""

    def __init__(self) -> None:
        self._items: list[wire.Answer] = []
        self._arrived = asyncio.Event()

    def add(self, answer: wire.Answer) -> None:
        if not self._items:
            self._arrived.set()
        self._items.append(answer)

    async def send(self, context: Context) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            items, self._items = self._items, []
            await context.write(wire.encode(items))


class Service:
    """Requests for groups, and questions to the node."""

    def __init__(self, node: RaftNode) -> None:
        self._node = node
        self._gatherer = Gatherer(node.groups, asyncio.get_running_loop())

    def handler(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            wire.SERVICE,
            {
                wire.EXECUTE: grpc.stream_stream_rpc_method_handler(self._execute),
                wire.CALL: grpc.unary_unary_rpc_method_handler(self._call),
            },
        )

    async def _execute(self, _: Any, context: Context) -> None:
        replies = _Replies()
        sending = asyncio.ensure_future(replies.send(context))
        try:
            while (message := await context.read()) is not grpc.aio.EOF:
                for number, group, kind, payload in wire.decode_requests(message):
                    told = _answering(replies, number)
                    if kind == wire.COMMAND:
                        self._gatherer.command(group, payload, told)
                    else:
                        self._gatherer.read(group, payload, told)
        finally:
            sending.cancel()

    async def _call(self, request: bytes, context: Context) -> bytes:
        name, arguments = wire.decode(request)
        try:
            return wire.encode(await getattr(self, f"_call__{name}")(**arguments))
        except RaftError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
            raise AssertionError("abort raises") from error

    # questions

    async def _call__status(self, group: int) -> dict[str, Any]:
        driver = self._node.groups.driver(group)
        status = driver.core.status()
        assert isinstance(driver.machine, Register)
        return {
            "role": status.role.value,
            "term": status.term,
            "leader": node_of(status.leader),
            "member": status.member,
            "commit": status.commit,
            "applied": status.applied,
            "snapshot": status.snapshot,
            "voters": status.membership.voters,
            "learners": status.membership.learners,
            "digest": driver.machine.digest(),
        }

    async def _call__node(self) -> dict[str, Any]:
        drivers = list(self._node.groups.drivers())
        return {
            "groups": len(drivers),
            "led": [driver.group for driver in drivers if driver.leads],
            "trusted": [node for node in self._node.peers if self._node.groups.trusts(node)],
            "round_trip_s": [self._node.groups.round_trip_s(node) for node in self._node.peers],
            "leaderless": sum(not driver.leader for driver in drivers),
            "log": self._node.log.statistics(),
        }

    async def _call__transfer(self, group: int, node: int) -> None:
        status = self._node.groups.driver(group).core.status()
        to = next(voter for voter in status.membership.voters if node_of(voter) == node)
        self._node.groups.transfer(group, to)

    async def _call__remove(self, group: int, member: int) -> None:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def removed(_: Any, error: RaftError | None) -> None:
            if error is None:
                ended.set_result(None)
            else:
                ended.set_exception(error)

        self._node.groups.change(group, RemoveMember(member), removed)
        await ended

    async def _call__fill(self, group: int, entries: int, command_bytes: int) -> int:
        """Commit so many entries of one command each, as fast as it goes."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        command = put(b"key", bytes(command_bytes - len(put(b"key", b""))))
        left = entries

        def committed(results: Any, error: RaftError | None) -> None:
            nonlocal left
            if error is not None:
                ended.set_exception(error)
                return
            left -= len(results)
            if left > 0:
                self._node.groups.propose(group, [command] * min(left, FILL_ENTRIES), committed)
            else:
                ended.set_result(None)

        self._node.groups.propose(group, [command] * min(left, FILL_ENTRIES), committed)
        await ended
        return entries

    async def _call__load(
        self, groups: list[int], in_flight: int, command_bytes: int, seconds: float
    ) -> dict[str, Any]:
        return await Load(self._gatherer, groups, in_flight, command_bytes, seconds).run()


def _answering(replies: _Replies, number: int) -> Any:
    return lambda said, detail: replies.add((number, int(said), detail))
