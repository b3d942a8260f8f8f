"""A disk whose power can be cut: ext4 on a loop device that is shut down without writing its journal out.

The ioctl EXT4_IOC_SHUTDOWN with NOLOGFLUSH makes the file system forget whatever was not made durable: un-fsynced data, sizes,
new files and renames whose directory was not synced. After the next mount it holds just what a machine finds when its power
comes back. Needs root, mkfs.ext4 and loop devices.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2
IMAGE_BYTES = 512 << 20


def available() -> str | None:
    """Why power cannot be cut here, or None when it can."""
    if os.geteuid() != 0:
        return "cutting the power of a loop device needs root"
    if shutil.which("mkfs.ext4") is None:
        return "mkfs.ext4 is not installed"
    return None


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

    def restore_power(self) -> None:
        """Mount again after a cut, once every process that used the disk has ended."""
        self.unmount()
        self.mount()


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
