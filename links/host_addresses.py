"""Addresses of the hosts that links name, asked for beside the event loop.

Anybody who may declare a link names hosts, also some that nobody answers for: then a question lasts until the resolver gives
up, often ten seconds. The loop's own questions share four threads with those of other nodes' addresses, wait there in a line
that nobody can leave, and the process does not end before the last of them has been answered. So links ask in threads that end
with the process: each host once for all who wait, and AT_ONCE hosts at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from ipaddress import ip_address

AT_ONCE = 32  # a thread that waits costs nothing but its stack

Answer = list[str] | Exception


class HostAddresses:
    """See the module. Of one event loop."""

    def __init__(self, look_up: Callable[[str], list[str]] | None = None) -> None:
        """`look_up` blocks. Raises OSError or ValueError."""
        self._look_up = look_up or addresses_of
        self._asked: dict[str, asyncio.Future[Answer]] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def of(self, host: str) -> list[str]:
        """Those that may be connected to, in this order. Raises OSError or ValueError."""
        if is_address(host):
            return [host]
        asked = self._asked.get(host) or await self._ask(host)
        answer = await asyncio.shield(asked)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _ask(self, host: str) -> asyncio.Future[Answer]:
        """Who gives up while it waits for a turn has asked nothing."""
        await self._turns.acquire()
        if host in self._asked:
            self._turns.release()
            return self._asked[host]
        loop = asyncio.get_running_loop()
        asked = self._asked[host] = loop.create_future()
        threading.Thread(target=self._work, args=(loop, host, asked), name=f"host {host[:40]}", daemon=True).start()
        return asked

    def _work(self, loop: asyncio.AbstractEventLoop, host: str, asked: asyncio.Future[Answer]) -> None:
        answer: Answer
        try:
            answer = self._look_up(host)
        except (OSError, ValueError) as error:
            answer = error
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(self._answered, host, asked, answer)

    def _answered(self, host: str, asked: asyncio.Future[Answer], answer: Answer) -> None:
        del self._asked[host]
        self._turns.release()
        asked.set_result(answer)


def is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def addresses_of(host: str) -> list[str]:
    found = [one[4] for one in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
    return [f"{one[0]}%{one[3]}" if len(one) == 4 and one[3] else str(one[0]) for one in found]  # with its scope
