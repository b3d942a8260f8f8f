"""A container engine: the one that answers here, else one of our own for as long as a command runs.

Our own needs root, and Debian's packages, which are installed if they are missing. It runs in namespaces of its own (network,
mounts, processes), and the command with it. So its bridges and packet filters do not touch the machine's network, the ports of
the compose file are free whatever else runs, and all of it, containers too, is gone when the command has ended, however it
ended. Its images stay in var/containers for the next time.

In there nothing but containers is reached: what has to be fetched is fetched before.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import docker
from docker.errors import DockerException

from tests.containers import image
from tests.containers.base_image import ROOT, STATE

PACKAGES = {  # a command, and the package that has it
    "dockerd": "docker.io",
    "iptables": "iptables",
    "docker-compose": "docker-compose",
    "mmdebstrap": "mmdebstrap",
    "ip": "iproute2",
    "mount": "mount",
    "unshare": "util-linux",
}
SOCKET = "unix:///run/docker.sock"
STARTS_WITHIN_S = 60.0
STOPS_WITHIN_S = 30.0
LOOK_S = 0.1


def answers() -> bool:
    try:
        with contextlib.closing(docker.from_env(timeout=10)) as client:
            return bool(client.ping())
    except DockerException:
        return False


def unavailable() -> str | None:
    """Why there can be no engine here, or None."""
    if answers():
        return (
            None
            if compose_command()
            else "the engine answers, but neither `docker compose` nor docker-compose is there"
        )
    if os.geteuid() != 0:
        return "no container engine answers, and to start one needs root"
    if _missing() and shutil.which("apt-get") is None:
        return f"no container engine answers, and these are not installed: {', '.join(_missing())}"
    return None


def compose_command() -> tuple[str, ...]:
    """What runs a compose file here; empty when nothing does."""
    plugin = ("docker", "compose")
    if (
        shutil.which(plugin[0])
        and subprocess.run([*plugin, "version"], capture_output=True, check=False).returncode == 0
    ):
        return plugin
    return ("docker-compose",) if shutil.which("docker-compose") else ()


def install() -> None:
    """What our own engine and the image need, unless an engine answers."""
    if answers() or not (missing := _missing()):
        return
    print(f"installing {', '.join(missing)}", flush=True)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-qq"], ["install", "-qq", "--yes", "--no-install-recommends", *missing]):
        done = subprocess.run(["apt-get", *command], env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"apt-get {' '.join(command)} failed: {done.stdout}{done.stderr}")


def run(command: Sequence[str], context: Path) -> NoReturn:
    """Build the image from `context`, run the command, and end as it ends."""
    if answers():
        image.build(context)
        sys.exit(subprocess.call(command, cwd=ROOT))
    STATE.mkdir(parents=True, exist_ok=True)
    lock = os.open(STATE / "lock", os.O_RDWR | os.O_CREAT)  # one engine may use the directory; held until all is gone
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.set_inheritable(lock, True)
    sys.stdout.flush()
    alone = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    os.chdir(ROOT)
    os.execvp(alone[0], [*alone, sys.executable, "-m", "tests.containers.engine", str(context), *command])


def _inside(context: Path, command: Sequence[str]) -> int:
    """As the first process of the namespaces: when it ends, so does everything in them."""
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    os.environ |= {"DOCKER_HOST": SOCKET, "TESTCONTAINERS_RYUK_DISABLED": "true"}
    # No bridge of its own: images are built without a network, and compose makes the networks that it needs.
    dockerd = ["dockerd", "--data-root", str(STATE / "engine"), "--host", SOCKET, "--bridge", "none"]
    dockerd += ["--exec-opt", "native.cgroupdriver=cgroupfs"]
    with (STATE / "engine.log").open("w") as log:
        engine = subprocess.Popen(dockerd, stdout=log, stderr=log)
    try:
        _wait(engine)
        _empty()
        image.build(context)
        return subprocess.call(command)
    finally:
        engine.terminate()
        engine.wait(STOPS_WITHIN_S)


def _wait(engine: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + STARTS_WITHIN_S
    while not answers():
        if engine.poll() is not None or time.monotonic() > until:
            sys.exit(f"dockerd did not start:\n{(STATE / 'engine.log').read_text()[-3_000:]}")
        time.sleep(LOOK_S)


def _empty() -> None:
    """What a run that was killed left in our own engine's directory."""
    with contextlib.closing(docker.from_env()) as client:
        for container in client.containers.list(all=True):
            container.remove(force=True, v=True)
        for volume in client.volumes.list():
            volume.remove(force=True)
        client.networks.prune()
        client.images.prune()


def _missing() -> list[str]:
    return [package for command, package in PACKAGES.items() if shutil.which(command, path=_path()) is None]


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


if __name__ == "__main__":
    os.environ["PATH"] = _path()
    sys.exit(_inside(Path(sys.argv[1]), sys.argv[2:]))
