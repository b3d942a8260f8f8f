"""The backend of processes on this machine's loopback, with disks whose power can be cut and whose fsync can be made faulty.

Which of that is set up is told by what the scenario needs: a file system of its own for each node costs a second, and a node
with a library in front of its libc is not quite the node that users run.
"""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from tests.chaos import fsync_shim, limits
from tests.chaos.backend import Address, BaseBackend, Can, Shape
from tests.chaos.cut_shim import CutShim
from tests.chaos.fsync_shim import FsyncShim
from tests.chaos.limits import Limits
from tests.chaos.node_process import NodeProcess, Place
from tests.crash import power
from tests.ports import free_ports

OWN_DISK = frozenset({Can.POWER, Can.FULL})
PORTS_OF_A_NODE = 3


def unavailable(needs: frozenset[Can]) -> str | None:
    """Why processes cannot do this here, or None when they can."""
    if beyond := needs - Processes.can:
        return f"processes cannot {', '.join(sorted(what.value for what in beyond))}"
    if needs & OWN_DISK and (why_not := power.available()):
        return why_not
    if Can.LIMIT in needs and (why_not := limits.available()):
        return why_not
    return fsync_shim.available() if needs & {Can.FSYNC, Can.LINE} else None


class Processes(BaseBackend):
    can = OWN_DISK | {Can.FSYNC, Can.CONFIG, Can.LIMIT, Can.DESCRIPTORS, Can.LINE}

    def __init__(self, shape: Shape, scratch: Path, needs: frozenset[Can] = frozenset()) -> None:
        self.shape = shape
        self.credentials = ("guest", "guest")
        self._scratch = scratch
        self._needs = needs
        self._stack = ExitStack()
        self._shim: FsyncShim | None = None
        self._cut: CutShim | None = None
        self._disks: dict[str, power.PowerDisk] = {}
        self._nodes: dict[str, NodeProcess] = {}
        self._without_power: set[str] = set()
        self._limits: dict[str, Limits] = {}
        self._descriptors: dict[str, tuple[int, tuple[int, int]]] = {}  # of limited nodes: process, limits before

    def begin(self) -> None:
        self._scratch.mkdir(exist_ok=True)
        if Can.FSYNC in self._needs:
            self._shim = FsyncShim(self._scratch)
        if Can.LINE in self._needs:
            self._cut = CutShim(self._scratch)
        if self._needs & OWN_DISK:
            for name in self.shape.names:
                self._disks[name] = self._stack.enter_context(power.power_disk(self._made(name)))
        places = self._places()
        options = self._options(places)
        for name, place in places.items():
            more = ("--ram",) if name not in self.shape.disk_names else ()
            environment = {key: value for shim in self._shims() for key, value in shim.environment(name).items()}
            log = self._scratch / f"{name}.log"
            self._nodes[name] = NodeProcess(name, place, self.data_dir(name), log, (*options, *more), environment)
        for node in self._nodes.values():
            node.begin()  # none is ready before most are there
        for node in self._nodes.values():
            node.wait_until_ready()

    def end(self) -> None:
        for node in self._nodes.values():
            node.kill()
        for name in list(self._limits):
            self.lift_limits(name)
        self._stack.close()

    def amqp(self, node: str) -> Address:
        return self._nodes[node].place.amqp

    def grpc(self, node: str) -> str:
        host, port = self._nodes[node].place.grpc
        return f"{host}:{port}"

    def log(self, node: str) -> str:
        return self._nodes[node].log.read_text(errors="replace")

    def is_running(self, node: str) -> bool:
        return self._nodes[node].is_running

    def start(self, node: str) -> None:
        self._start(node)

    def start_with(self, node: str, config: str) -> None:
        file = self._scratch / f"{node}.toml"
        file.write_text(self.shape.config + config)
        self._start(node, "--config", str(file))

    def _start(self, node: str, *options: str) -> None:
        if node in self._without_power:
            self._disks[node].restore_power()
            self._without_power.remove(node)
        for shim in self._shims():
            shim.heal(node)
        self._nodes[node].begin(*options)
        self._nodes[node].wait_until_ready()

    def stop(self, node: str) -> None:
        self._nodes[node].stop()

    def kill(self, node: str) -> None:
        self._nodes[node].kill()

    def pause(self, node: str) -> None:
        self._nodes[node].signal(signal.SIGSTOP)

    def resume(self, node: str) -> None:
        self._nodes[node].signal(signal.SIGCONT)

    def data_dir(self, node: str) -> Path:
        return (self._disks[node].path if self._disks else self._scratch / node) / "data"

    def cut_power(self, nodes: Iterable[str]) -> None:
        victims = list(nodes)
        power.stop_running([self._nodes[name].pid for name in victims])
        for name in victims:
            self._disks[name].cut_power()
        for name in victims:
            self._nodes[name].kill()
        self._without_power.update(victims)

    def slow_fsync(self, node: str, seconds: float) -> None:
        assert self._shim is not None, "the scenario does not say that it needs fsync"
        self._shim.slow(node, seconds) if seconds else self._shim.heal(node)

    def fail_fsync(self, node: str) -> None:
        assert self._shim is not None, "the scenario does not say that it needs fsync"
        self._shim.fail(node)

    def kill_at_line(self, node: str, text: str) -> None:
        assert self._cut is not None, "the scenario does not say that it kills at lines"
        self._cut.kill_at_line(node, text)

    def run_until_sync(self, node: str, number: int, *command: str) -> bool:
        assert self._cut is not None, "the scenario does not say that it kills at lines"
        return self._nodes[node].run(self._cut.environment_until_sync(number), *command)

    def fill_disk(self, node: str, left_bytes: int = 0) -> None:
        """With a file that takes what is there, again and again, for the node gives some back and takes some."""
        ballast = os.open(self._ballast(node), os.O_WRONLY | os.O_CREAT)
        try:
            size = os.fstat(ballast).st_size
            step = 1 << 24
            while step >= 4_096:
                try:
                    os.posix_fallocate(ballast, size, step)
                    size += step
                except OSError:
                    step //= 2
            os.ftruncate(ballast, max(0, size - left_bytes))
        finally:
            os.close(ballast)

    def free_disk(self, node: str) -> None:
        self._ballast(node).unlink(missing_ok=True)

    def limit_processor(self, node: str, share: float) -> None:
        self._limits_of(node).limit_processor(share)

    def limit_memory(self, node: str, further_bytes: int) -> None:
        self._limits_of(node).limit_memory(further_bytes)

    def lift_limits(self, node: str) -> bool:
        limited = self._limits.pop(node)
        have_bitten = limited.have_bitten()
        limited.remove()
        return have_bitten

    def limit_descriptors(self, node: str) -> None:
        pid = self._nodes[node].pid
        self._descriptors[node] = pid, limits.limit_descriptors(pid)

    def restore_descriptors(self, node: str) -> None:
        pid, before = self._descriptors.pop(node)
        if self._nodes[node].is_running and self._nodes[node].pid == pid:
            limits.restore_descriptors(pid, before)

    def _shims(self) -> list[FsyncShim | CutShim]:
        """One at most of each; a scenario needs one of them, for a process has one LD_PRELOAD."""
        found = [shim for shim in (self._shim, self._cut) if shim is not None]
        assert len(found) < 2, "a scenario that needs both libraries"
        return found

    def _limits_of(self, node: str) -> Limits:
        return self._limits.setdefault(node, Limits(self._nodes[node].pid))

    def _ballast(self, node: str) -> Path:
        return self._disks[node].path / "ballast"

    def _made(self, node: str) -> Path:
        directory = self._scratch / node
        directory.mkdir(exist_ok=True)
        return directory

    def _places(self) -> dict[str, Place]:
        ports = iter(free_ports(PORTS_OF_A_NODE * len(self.shape.names)))
        return {name: _place_here(next(ports), next(ports), next(ports)) for name in self.shape.names}

    def _options(self, places: dict[str, Place]) -> tuple[str, ...]:
        """What all nodes are told alike."""
        secret, config = self._scratch / "secret", self._scratch / "nodes.toml"
        secret.write_text(secrets.token_hex(32))
        config.write_text(self.shape.config)
        peers = [part for name in self.shape.disk_names for part in ("--peers", places[name].peer)]
        return ("--secret-file", str(secret), "--config", str(config), *peers)


def _place_here(amqp: int, grpc: int, peer: int) -> Place:
    unused = ("--http", "127.0.0.1:0", "--stream", "127.0.0.1:0")
    listen = ("--amqp", f"127.0.0.1:{amqp}", "--grpc", f"127.0.0.1:{grpc}", "--peer", f"127.0.0.1:{peer}")
    return Place(("127.0.0.1", amqp), ("127.0.0.1", grpc), (*listen, *unused), f"127.0.0.1:{peer}")
