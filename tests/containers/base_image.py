"""What images are built on: a base of Debian's packages, since no registry is asked. It is fetched once and kept.

var/containers/base-SUITE-HASH.tar    Debian's minimum with Python and what else was asked for
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import docker
from docker.errors import ImageNotFound

ROOT = Path(__file__).parents[2]
STATE = ROOT / "var" / "containers"
SUITES = {(3, 11): "bookworm", (3, 13): "trixie"}  # whose Python takes the wheels that this Python makes
PACKAGES = "python3-venv,python-is-python3,passwd,libstdc++6"  # what python:slim has, too
NOT_NEEDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")
MANUALS = "/usr/share/man/man1"  # Java's packages put links there when they are installed, and fail without it


def make(packages: str = PACKAGES) -> None:
    """Fetch the base, unless it is kept."""
    if _file(packages).exists():
        return
    print("making a base image of Debian's packages", flush=True)
    options = [f"--dpkgopt=path-exclude={pattern}" for pattern in NOT_NEEDED]
    options.append(f'--essential-hook=mkdir -p "$1{MANUALS}"')
    made = _file(packages).with_suffix(".new.tar")
    run(["mmdebstrap", "--quiet", "--variant=essential", f"--include={packages}", *options, suite(), str(made)])
    made.rename(_file(packages))


def imported(client: docker.DockerClient, packages: str = PACKAGES) -> str:
    """The name that the base has in the engine."""
    name, tag = "leveret-base", _file(packages).stem
    try:
        client.images.get(f"{name}:{tag}")
    except ImageNotFound:
        client.api.import_image_from_file(str(_file(packages)), repository=name, tag=tag)
    return f"{name}:{tag}"


def suite() -> str:
    version = sys.version_info[:2]
    if version not in SUITES:
        able = ", ".join(f"{major}.{minor}" for major, minor in SUITES)
        sys.exit(
            f"the wheels of Python {version[0]}.{version[1]} fit no base that can be made here; run this with {able}"
        )
    return SUITES[version]


def run(command: list[str]) -> None:
    """Ends this process when the command fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2_000:]}{done.stderr[-4_000:]}")


def _file(packages: str) -> Path:
    recipe = repr((packages, NOT_NEEDED)).encode()
    return STATE / f"base-{suite()}-{hashlib.sha256(recipe).hexdigest()[:8]}.tar"
