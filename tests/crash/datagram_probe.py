"""Which network namespace hears which: datagrams are sent from each to each, and who received one heard its sender.

A socket belongs to the namespace that its thread was in when it made it. So each is made by a thread that enters the namespace
for this one call, and all of them are used from the outside. Needs root.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import socket
import threading
import time
from collections.abc import Mapping, Set

PORT = 7009
CLONE_NEWNET = 0x40000000
HEARD_WITHIN_S = 5.0  # for what has to arrive; on a busy machine the first resolution of an address takes its time
AGAIN_S = 0.05  # a datagram may be lost
UNHEARD_FOR_S = 0.05  # after all others have arrived, what has not arrived either was dropped
SIZE_MAX = 64

Pair = tuple[int, int]  # receiver and sender


class DatagramProbe:
    """Of namespaces by their numbers, each with its name and its address in it."""

    def __init__(self, namespaces: Mapping[int, tuple[str, str]]) -> None:
        self._hosts = {number: host for number, (_, host) in namespaces.items()}
        self._sockets = {number: _socket_in(name, host) for number, (name, host) in namespaces.items()}
        self._round = 0

    def close(self) -> None:
        for each in self._sockets.values():
            each.close()

    def heard(self, expected: Set[Pair], pairs: Set[Pair]) -> set[Pair]:
        """Which of the pairs hear each other. Returns as soon as all expected ones do and no other one came meanwhile."""
        self._round += 1  # what a sender said in an earlier round may have been held up
        heard: set[Pair] = set()
        until = time.monotonic() + HEARD_WITHIN_S
        while True:
            for receiver, sender in pairs - heard:
                text = f"{self._round} {receiver} {sender}".encode()
                with contextlib.suppress(OSError):  # no route, or refused at once: not heard
                    self._sockets[sender].sendto(text, (self._hosts[receiver], PORT))
            self._receive(heard, AGAIN_S)
            if expected <= heard or time.monotonic() > until:
                self._receive(heard, UNHEARD_FOR_S)
                return heard & pairs

    def _receive(self, heard: set[Pair], within_s: float) -> None:
        until = time.monotonic() + within_s
        while (left := until - time.monotonic()) > 0:
            for ready in select.select(list(self._sockets.values()), [], [], left)[0]:
                round_number, receiver, sender = map(int, ready.recv(SIZE_MAX).split())
                if round_number == self._round:
                    heard.add((receiver, sender))


def _socket_in(namespace: str, host: str) -> socket.socket:
    made: list[socket.socket] = []
    failed: list[OSError] = []

    def make() -> None:
        try:
            _enter(namespace)
            each = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            each.setblocking(False)
            each.bind((host, PORT))
            made.append(each)
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=make, name=f"enters {namespace}")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


def _enter(namespace: str) -> None:
    """This thread alone, for as long as it lives."""
    descriptor = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter the network namespace {namespace}")
    finally:
        os.close(descriptor)
