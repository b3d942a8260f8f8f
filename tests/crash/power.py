"""A disk whose power can be cut: ext4 on a loop device that is shut down without writing its journal out.

The ioctl EXT4_IOC_SHUTDOWN with NOLOGFLUSH makes the file system forget whatever was not made durable: un-fsynced data, sizes,
new files and renames whose directory was not synced. After the next mount it holds just what a machine finds when its power
comes back. Needs root, mkfs.ext4 and loop devices.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2
CLONE_NEWNS = 0x20000
IMAGE_BYTES = 8 << 30  # of a sparse file: what is published to a stream stays, and little room holds publishers
UNINTERRUPTIBLE, STOPPED = "D", "T"  # states of a thread in /proc
STANDSTILL_WITHIN_S = 30.0


def available() -> str | None:
    """Why power cannot be cut here, or None when it can."""
    if os.geteuid() != 0:
        return "cutting the power of a loop device needs root"
    if shutil.which("mkfs.ext4") is None:
        return "mkfs.ext4 is not installed"
    return None


def keep_mounts_apart() -> None:
    """Give this process a mount namespace of its own; for programs, before they start threads.

    A process that makes itself such a namespace, as containers do, takes a copy of every mount. There a file system that was
    shut down lives on after our unmount, and it is what our next mount of its image finds: every access fails. So nobody may
    copy ours, and the copies that we took of others' are let go of.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "no mount namespace of its own for a disk whose power is cut")
    run("mount", "--make-rprivate", "/")
    for line in Path("/proc/self/mounts").read_text().splitlines():
        device, path, *_ = line.split()
        if device.startswith("/dev/loop"):
            run("umount", "--lazy", path)


class PowerDisk:
    """One file system on a loop device, mounted at `path`."""

    def __init__(self, image: Path, path: Path) -> None:
        self._image = image
        self.path = path
        with image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        run("mkfs.ext4", "-q", "-F", str(image))
        path.mkdir()
        self.mount()

    def mount(self) -> None:
        run("mount", "-o", "loop", str(self._image), str(self.path))

    def unmount(self) -> None:
        run("umount", str(self.path))

    def cut_power(self) -> None:
        """From here on every write fails, and what was not durable is gone at the next mount."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(descriptor)
        if self._takes_writes():
            raise RuntimeError(f"the power of {self.path} was cut, and files can still be made there")

    def _takes_writes(self) -> bool:
        probe = self.path / "written without power"
        try:
            probe.write_bytes(b"x")
        except OSError:
            return False
        return True

    def restore_power(self) -> None:
        """Mount again after a cut, once every process that used the disk has ended."""
        self.unmount()
        self.mount()


def stop_running(processes: Sequence[int]) -> None:
    """All at the same moment (SIGSTOP), until none of their threads will run again. A machine without power says nothing, so
    nothing may be heard of them that was said after the cut."""
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    until = time.monotonic() + STANDSTILL_WITHIN_S
    for process in processes:
        while not stands_still(process):
            if time.monotonic() > until:
                raise TimeoutError(f"process {process} still runs {STANDSTILL_WITHIN_S} s after SIGSTOP")
            time.sleep(0.005)


def stands_still(process: int) -> bool:
    """Each thread is stopped, or in the kernel and will be before it leaves that."""
    states = [
        task.joinpath("stat").read_text().rpartition(")")[2].split()[0]
        for task in Path(f"/proc/{process}/task").iterdir()
    ]
    return STOPPED in states and all(state in (STOPPED, UNINTERRUPTIBLE) for state in states)


def end_by_exception() -> None:
    """SIGTERM is to unwind this process, so that its mounts, namespaces and children do not outlive it."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()}")


@contextlib.contextmanager
def power_disk(scratch: Path) -> Iterator[PowerDisk]:
    disk = PowerDisk(scratch / "disk.img", scratch / "disk")
    try:
        yield disk
    finally:
        disk.unmount()
