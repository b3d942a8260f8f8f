"""Connections to the broker's customary ports on this machine go to the node under test instead.

Some suites have `localhost:5672` written into them. COMPAT_REDIRECT says where those connections go, for example
`5672=127.0.0.1:27671,5671=127.0.0.1:41234`. Only loopback addresses and only the named ports are touched, so a test
that opens a port of its own, or expects a refusal, sees what it would see without this. sitecustomize.py installs it
in every interpreter of a suite, since tests start children that connect too; as a pytest plugin it also covers the
sockets of gevent, which are a class of their own.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import socket
from typing import Any

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def _targets() -> dict[int, tuple[str, int]]:
    targets = {}
    for pair in filter(None, os.environ.get("COMPAT_REDIRECT", "").split(",")):
        port, _, address = pair.partition("=")
        host, _, target_port = address.rpartition(":")
        targets[int(port)] = (socket.gethostbyname(host), int(target_port))
    return targets


def _redirected(family: int, address: Any, targets: dict[int, tuple[str, int]]) -> Any:
    if family not in (socket.AF_INET, socket.AF_INET6) or address[0] not in _LOOPBACK or address[1] not in targets:
        return address
    host, port = targets[address[1]]
    # An IPv6 socket reaches an IPv4 address in its mapped form.
    return (f"::ffff:{host}", port) if family == socket.AF_INET6 else (host, port)


def _patch(socket_class: Any, targets: dict[int, tuple[str, int]]) -> None:
    for name in ("connect", "connect_ex"):
        original = getattr(socket_class, name)

        @functools.wraps(original)
        def connect(self: Any, address: Any, original: Any = original) -> Any:
            return original(self, _redirected(self.family, address, targets))

        setattr(socket_class, name, connect)


def install() -> None:
    if targets := _targets():
        _patch(socket.socket, targets)


def pytest_configure() -> None:
    targets = _targets()
    if targets and importlib.util.find_spec("gevent"):
        _patch(importlib.import_module("gevent.socket").socket, targets)
