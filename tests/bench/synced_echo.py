"""What one message at a time can reach at most, whatever the broker does: `python -m tests.bench.synced_echo [DIR]`.

A process answers each message over loopback TCP and does nothing else; then it writes each to a file first, and calls
fdatasync, as a confirm promises. With one message unconfirmed a broker that confirms what is durable stays below the second
figure.
"""

from __future__ import annotations

import multiprocessing as processes
import os
import socket
import sys
import tempfile
import time

MESSAGES = 5_000
MESSAGE_BYTES = 100
COMMIT_BYTES = 300  # what a node writes for one of these
FILE_BYTES = 4 << 20
ROUNDS = 3


def answer(listener: socket.socket, directory: str, *, syncs: bool) -> None:
    """All messages of one connection."""
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection, tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        descriptor, commit = file.fileno(), b"x" * COMMIT_BYTES
        os.pwrite(descriptor, bytes(FILE_BYTES), 0)
        os.fsync(descriptor)
        offset = 0
        while message := connection.recv(MESSAGE_BYTES):
            if syncs:
                os.pwrite(descriptor, commit, offset)
                os.fdatasync(descriptor)
                offset += COMMIT_BYTES
            connection.send(message)


def round_trips_per_s(directory: str, *, syncs: bool) -> float:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = processes.get_context("fork").Process(
            target=answer, args=(listener, directory), kwargs={"syncs": syncs}
        )
        process.start()
        with socket.create_connection(listener.getsockname()) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            message = b"x" * MESSAGE_BYTES
            begin = time.perf_counter()
            for _ in range(MESSAGES):
                client.send(message)
                client.recv(MESSAGE_BYTES)
            seconds = time.perf_counter() - begin
        process.join()
    return MESSAGES / seconds


def main() -> None:
    directory = sys.argv[1] if len(sys.argv) > 1 else tempfile.gettempdir()
    for _ in range(ROUNDS):
        bare, synced = (round_trips_per_s(directory, syncs=syncs) for syncs in (False, True))
        print(
            f"{bare:,.0f} a second, {1e6 / bare:.0f} µs each; synced {synced:,.0f} a second, {1e6 / synced:.0f} µs each"
        )


if __name__ == "__main__":
    main()
