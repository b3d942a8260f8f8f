"""Listening sockets, several for one address: each source has its connections wait in one of their backlogs.

The kernel queues connections in the order in which they come. With a single socket, thousands from one address stand before
everybody else, or fill the backlog, and then the kernel drops what comes and its client tries again after a second. So an
address has several sockets (SO_REUSEPORT), and a classic BPF program has the kernel choose one by the source's address alone,
with a key of this process: a flood delays those whose source falls to the same socket, one of SOCKETS_MAX.

Where the kernel cannot do it, there is one socket. Another process that listens on the address is an error as ever.
"""

from __future__ import annotations

import ctypes
import resource
import secrets
import socket
import struct

SOCKETS_MAX = 32
# A socket costs a descriptor, and a node listens on up to a dozen addresses: together they take a tenth of what it may have.
DESCRIPTORS_PER_SOCKET = 128

SO_ATTACH_REUSEPORT_CBPF = 51  # asm-generic/socket.h; the socket module has no name for it

# linux/bpf_common.h, linux/filter.h
INSTRUCTION = "HBBI"
LOAD_WORD = 0x20  # BPF_LD | BPF_W | BPF_ABS
MULTIPLY = 0x24  # BPF_ALU | BPF_MUL | BPF_K
SHIFT_RIGHT = 0x74  # BPF_ALU | BPF_RSH | BPF_K
XOR_INDEX = 0xAC  # BPF_ALU | BPF_XOR | BPF_X
TO_INDEX = 0x07  # BPF_MISC | BPF_TAX
RETURN = 0x16  # BPF_RET | BPF_A
NETWORK_HEADER = 0xFFF00000  # SKF_NET_OFF: offsets from here are into the IP header
# Where the words are that limits count a source by: the IPv4 address, or the /64 of an IPv6 address.
SOURCE_WORDS = {socket.AF_INET: (12,), socket.AF_INET6: (8, 12)}


def listening_sockets(host: str, port: int, backlog: int) -> list[socket.socket]:
    """All with the same port. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            at = sockets[0].getsockname()[1] if sockets else port
            sockets += _sockets_of_port(family, str(address[0]), at, backlog)
    except OSError:
        for one in sockets:
            one.close()
        raise
    for one in sockets:
        one.setblocking(False)
    return sockets


def _sockets_of_port(family: int, host: str, port: int, backlog: int) -> list[socket.socket]:
    """Raises OSError."""
    count = _affordable()
    sockets: list[socket.socket] = []
    if count > 1 and family in SOURCE_WORDS and _is_free(family, host, port):
        try:
            for _ in range(count):
                sockets.append(socket.create_server((host, port), family=family, backlog=backlog, reuse_port=True))
                port = sockets[0].getsockname()[1]
            _choose_by_source(sockets)
            return sockets
        except (OSError, ValueError):  # ValueError: this system has no SO_REUSEPORT
            for one in sockets:
                one.close()
    return [socket.create_server((host, port), family=family, backlog=backlog)]


def _affordable() -> int:
    """A power of two."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = SOCKETS_MAX if soft == resource.RLIM_INFINITY else max(1, min(SOCKETS_MAX, soft // DESCRIPTORS_PER_SOCKET))
    return int(1 << (wanted.bit_length() - 1))


def _is_free(family: int, host: str, port: int) -> bool:
    """Sockets that share their port would share it with those of another process, too."""
    if not port:  # the system chooses one
        return True
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _choose_by_source(sockets: list[socket.socket]) -> None:
    """Raises OSError."""
    first = sockets[0]
    program = ctypes.create_string_buffer(chooser(first.family, len(sockets), key=secrets.randbits(32) | 1))
    instructions = len(program) // struct.calcsize(INSTRUCTION)
    head = struct.pack("HP", instructions, ctypes.addressof(program))
    first.setsockopt(socket.SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, head)


def chooser(family: int, count: int, key: int) -> bytes:
    """Its answer is which socket takes a connection: the highest bits of the source times `key`, which is odd."""
    first, *others = SOURCE_WORDS[socket.AddressFamily(family)]
    steps = [(LOAD_WORD, NETWORK_HEADER + first)]
    for offset in others:
        steps += [(TO_INDEX, 0), (LOAD_WORD, NETWORK_HEADER + offset), (XOR_INDEX, 0)]
    steps += [(MULTIPLY, key), (SHIFT_RIGHT, 33 - count.bit_length()), (RETURN, 0)]
    return b"".join(struct.pack(INSTRUCTION, code, 0, 0, operand) for code, operand in steps)
