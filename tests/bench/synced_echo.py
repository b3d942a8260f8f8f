"""What one message at a time can reach at most, whatever the broker does: `python -m tests.bench.synced_echo [DIR]`.

Processes that do nothing else answer each message over loopback TCP:

    bare       one answers it
    synced     one writes it to a file and calls fdatasync first, as a confirm promises
    majority   one hands it to two others, writes and syncs it as they do, and answers when one of them has answered

With one message unconfirmed a broker that confirms what is durable stays below the second figure, and below the third where a
majority of three has to have it. Bare is the bound of what waits for no disk: a delivery that waits for an acknowledgement is
one such round, a request that is answered two.
"""

from __future__ import annotations

import multiprocessing as processes
import os
import select
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

MESSAGES = 5_000
MESSAGE_BYTES = 100
COMMIT_BYTES = 300  # what a node writes for one of these
FILE_BYTES = 4 << 20
FOLLOWERS = 2
ROUNDS = 3

Address = tuple[str, int]


def connected(address: Address) -> socket.socket:
    connection = socket.create_connection(address)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def accepted(listener: socket.socket) -> socket.socket:
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


@contextmanager
def synced_file(directory: str) -> Iterator[Callable[[], None]]:
    """A call that appends to a file as a node appends to its log: to room that is there already, and synced."""
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        descriptor, commit, offset = file.fileno(), b"x" * COMMIT_BYTES, 0
        os.pwrite(descriptor, bytes(FILE_BYTES), 0)
        os.fsync(descriptor)

        def append() -> None:
            nonlocal offset
            os.pwrite(descriptor, commit, offset)
            os.fdatasync(descriptor)
            offset += COMMIT_BYTES

        yield append


def answer(listener: socket.socket, directory: str, *, syncs: bool) -> None:
    """All messages of one connection."""
    with accepted(listener) as connection, synced_file(directory) as append:
        while message := connection.recv(MESSAGE_BYTES):
            if syncs:
                append()
            connection.send(message)


def lead(listener: socket.socket, directory: str, followers: list[Address]) -> None:
    """All messages of one connection, each when one follower has it. The slower one's answers are taken as they come."""
    with accepted(listener) as client, synced_file(directory) as append, ExitStack() as stack:
        unanswered = {stack.enter_context(connected(follower)): 0 for follower in followers}

        def take_answers() -> None:
            for connection in select.select(list(unanswered), (), ())[0]:
                unanswered[connection] -= len(connection.recv(MESSAGE_BYTES))

        while message := client.recv(MESSAGE_BYTES):
            for connection in unanswered:
                connection.send(message)
                unanswered[connection] += len(message)
            append()
            while min(unanswered.values()):
                take_answers()
            client.send(message)
        while max(unanswered.values()):
            take_answers()


@contextmanager
def serving(serve: Callable[..., None], directory: str, **options: object) -> Iterator[Address]:
    """A process that serves one connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = processes.get_context("fork").Process(target=serve, args=(listener, directory), kwargs=options)
        process.start()
        yield listener.getsockname()
    process.join()


def round_trips_per_s(server: Address) -> float:
    message = b"x" * MESSAGE_BYTES
    with connected(server) as client:
        begin = time.perf_counter()
        for _ in range(MESSAGES):
            client.send(message)
            client.recv(MESSAGE_BYTES)
        return MESSAGES / (time.perf_counter() - begin)


def alone(directory: str, *, syncs: bool) -> float:
    with serving(answer, directory, syncs=syncs) as server:
        return round_trips_per_s(server)


def majority(directory: str) -> float:
    with ExitStack() as stack:
        followers = [stack.enter_context(serving(answer, directory, syncs=True)) for _ in range(FOLLOWERS)]
        return round_trips_per_s(stack.enter_context(serving(lead, directory, followers=followers)))


def main() -> None:
    directory = sys.argv[1] if len(sys.argv) > 1 else tempfile.gettempdir()
    for _ in range(ROUNDS):
        rates = {
            "bare": alone(directory, syncs=False),
            "synced": alone(directory, syncs=True),
            "majority": majority(directory),
        }
        print("   ".join(f"{name} {rate:,.0f} a second, {1e6 / rate:.0f} µs each" for name, rate in rates.items()))


if __name__ == "__main__":
    main()
