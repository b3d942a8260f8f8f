"""A proxy in front of each node's listener for other nodes, which lets bytes pass as slowly and as unreliably as it is told.

Each direction between two nodes has its own shape. Bytes of one connection stay in their order, as TCP promises; what is said
on different links is heard in any order when delays jitter. The caller is known by its address, so each node needs one
of its own (namespaces.py). The proxy runs in a thread with an event loop: whoever tells it something need not have one.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Coroutine, Mapping
from typing import Any

from tests.chaos.backend import Address, LinkShape

READ_BYTES = 1 << 16
WAITING_MAX = 64  # pieces that are on their way on one connection; further ones wait in the sender's kernel
RESET_LOOK_S = 0.1
MIB = 1 << 20
CALL_WITHIN_S = 10.0
PLAIN = LinkShape()


class Links:
    def __init__(self, nodes: Mapping[str, Address], host: str) -> None:
        self._nodes = dict(nodes)
        self._names = {address[0]: name for name, address in nodes.items()}
        self._host = host
        self._shapes: dict[tuple[str, str], LinkShape] = {}
        self._ports: dict[str, int] = {}
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._random = random.Random()
        self.flipped = 0  # bits, over all links
        self.bent = 0  # how often a shape was felt: bytes were late, slow or changed, or a connection was reset

    def open(self) -> None:
        self._thread.start()
        self._do(self._listen())

    def close(self) -> None:
        if self._thread.is_alive():
            self._do(self._stop())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CALL_WITHIN_S)

    def address(self, node: str) -> Address:
        """Where others reach this node."""
        return self._host, self._ports[node]

    def shape(self, sender: str, receiver: str, shape: LinkShape) -> None:
        self._shapes[sender, receiver] = shape

    def mend(self) -> None:
        self._shapes.clear()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_WITHIN_S)

    async def _listen(self) -> None:
        for name in self._nodes:

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, callee: str = name) -> None:
                await self._serve(callee, reader, writer)

            server = await asyncio.start_server(serve, self._host, 0)
            self._servers.append(server)
            self._ports[name] = server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, callee: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caller = self._names.get(writer.get_extra_info("peername")[0], "")
        onward: asyncio.StreamWriter | None = None
        try:
            back, onward = await asyncio.open_connection(*self._nodes[callee])
            both = [
                asyncio.ensure_future(self._pass(caller, callee, reader, onward)),
                asyncio.ensure_future(self._pass(callee, caller, back, writer)),
                asyncio.ensure_future(self._reset_some_time(caller, callee)),
            ]
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in both:
                    task.cancel()
                await asyncio.gather(*both, return_exceptions=True)
        except OSError:
            pass  # the callee is down: its caller finds its connection closed
        finally:
            writer.transport.abort()
            if onward is not None:
                onward.transport.abort()

    async def _pass(
        self, sender: str, receiver: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Until the sender is done, or the connection breaks."""
        on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(WAITING_MAX)
        arriving = asyncio.ensure_future(self._arrive(sender, receiver, on_the_way, writer))
        try:
            due = 0.0
            with contextlib.suppress(OSError):
                while data := await reader.read(READ_BYTES):
                    shape = self._shapes.get((sender, receiver), PLAIN)
                    data = self._corrupted(data, shape)
                    late = shape.delay_s + self._random.uniform(0, shape.jitter_s)
                    due = max(due, self._loop.time() + late)
                    self.bent += late > 0
                    await on_the_way.put((due, data))
        finally:
            arriving.cancel()

    def _corrupted(self, data: bytes, shape: LinkShape) -> bytes:
        """With one bit flipped, as often as the shape says, and often enough for each byte to have its chance."""
        if self._random.random() >= len(data) * shape.flips_per_mib / MIB:
            return data
        self.flipped += 1
        self.bent += 1
        changed = bytearray(data)
        changed[self._random.randrange(len(data))] ^= 1 << self._random.randrange(8)
        return bytes(changed)

    async def _arrive(
        self, sender: str, receiver: str, on_the_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while True:
                due, data = await on_the_way.get()
                if (early := due - self._loop.time()) > 0:
                    await asyncio.sleep(early)
                await self._drip(sender, receiver, data, writer)

    async def _drip(self, sender: str, receiver: str, data: bytes, writer: asyncio.StreamWriter) -> None:
        at = 0
        while at < len(data):
            per_second = self._shapes.get((sender, receiver), PLAIN).bytes_per_s
            piece = max(1, int(per_second / 100)) if per_second else len(data)
            self.bent += per_second > 0
            writer.write(data[at : at + piece])
            await writer.drain()
            at += piece
            if per_second:
                await asyncio.sleep(piece / per_second)

    async def _reset_some_time(self, caller: str, callee: str) -> None:
        """Returns when the connection is to be reset."""
        while True:
            await asyncio.sleep(RESET_LOOK_S)
            both = (self._shapes.get(pair, PLAIN) for pair in ((caller, callee), (callee, caller)))
            if any(self._random.random() < shape.resets_per_s * RESET_LOOK_S for shape in both):
                self.bent += 1
                return
