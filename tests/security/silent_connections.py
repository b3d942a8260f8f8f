"""A process that opens connections from one address, says nothing on them, and holds them.

    python -m tests.security.silent_connections SOURCE COUNT PORT...

It begins when a line comes on its standard input, says how many it has opened, and ends with its input.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import sys

CONNECT_TIMEOUT_S = 5.0
IP_BIND_ADDRESS_NO_PORT = 24  # ip(7); the socket module has no name for it


def main() -> None:
    source, count, *ports = sys.argv[1:]
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    sys.stdin.readline()
    held: list[socket.socket] = []
    for number in range(int(count)):
        one = socket.socket()
        one.settimeout(CONNECT_TIMEOUT_S)
        # Its port is chosen when it connects: thousands that are bound first cost the kernel a search each.
        one.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        with contextlib.suppress(OSError):  # refused
            one.bind((source, 0))
            one.connect(("127.0.0.1", int(ports[number % len(ports)])))
            held.append(one)
    print(len(held), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
