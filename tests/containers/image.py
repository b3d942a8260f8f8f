"""The image under test: deploy/Dockerfile, from wheels of this source, on a base of Debian's packages. No registry is asked.

What has to be fetched is kept in var/containers, under a name that changes with what it is made of:

    base-SUITE-HASH.tar Debian's minimum with Python
    wheels-HASH/        what the builder is given: Dockerfile and wheels/, of this source and all that it needs
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import docker
from docker.errors import ImageNotFound

from tests.source_copy import copy_source

ROOT = Path(__file__).parents[2]
STATE = ROOT / "var" / "containers"
TAG = "leveret:test"
MADE_OF = "leveret.made-of"  # the label that tells whether the image is of this source
SUITES = {(3, 11): "bookworm", (3, 13): "trixie"}  # whose Python takes the wheels that this Python makes
BASE_PACKAGES = "python3-venv,python-is-python3,passwd,libstdc++6"  # what python:slim has, too
NOT_NEEDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")


def prepared() -> Path:
    """Fetch and make all that `build` needs: what the builder is to be given."""
    STATE.mkdir(parents=True, exist_ok=True)
    if not _base_of_registry():
        _make_base()
    with tempfile.TemporaryDirectory(prefix="leveret-source-") as scratch:
        source = Path(scratch) / "source"
        copy_source(source)
        context = STATE / f"wheels-{_digest(source)}"
        if not context.exists():
            _make_wheels(source, context)
    return context


def build(context: Path) -> None:
    """Have the image TAG in the engine that answers, of what was prepared."""
    with contextlib.closing(docker.from_env(timeout=300)) as client:
        with contextlib.suppress(ImageNotFound):
            if client.images.get(TAG).labels.get(MADE_OF) == context.name:
                return
        base = _base_of_registry() or _imported_base(client)
        client.images.build(
            path=str(context),
            tag=TAG,
            buildargs={"BASE": base},
            labels={MADE_OF: context.name},
            network_mode="none",
            rm=True,
            forcerm=True,
        )


def _make_base() -> None:
    if _base_file().exists():
        return
    print("making a base image of Debian's packages", flush=True)
    excluded = [f"--dpkgopt=path-exclude={pattern}" for pattern in NOT_NEEDED]
    made = _base_file().with_suffix(".new.tar")
    _run(["mmdebstrap", "--quiet", "--variant=essential", f"--include={BASE_PACKAGES}", *excluded, _suite(), str(made)])
    made.rename(_base_file())


def _make_wheels(source: Path, context: Path) -> None:
    print("making wheels of this source and of what it needs", flush=True)
    for old in STATE.glob("wheels-*"):
        shutil.rmtree(old)
    made = source.with_name("context")
    made.mkdir()
    shutil.copy(ROOT / "deploy" / "Dockerfile", made)
    _run([sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(made / "wheels"), str(source)])
    shutil.move(made, context)


def _digest(source: Path) -> str:
    digest = hashlib.sha256((ROOT / "deploy" / "Dockerfile").read_bytes() + _suite().encode())
    for path in sorted(source.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(source)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _suite() -> str:
    version = sys.version_info[:2]
    if version not in SUITES:
        able = ", ".join(f"{major}.{minor}" for major, minor in SUITES)
        sys.exit(
            f"the wheels of Python {version[0]}.{version[1]} fit no base that can be made here; run this with {able}"
        )
    return SUITES[version]


def _base_file() -> Path:
    recipe = repr((BASE_PACKAGES, NOT_NEEDED)).encode()
    return STATE / f"base-{_suite()}-{hashlib.sha256(recipe).hexdigest()[:8]}.tar"


def _base_of_registry() -> str | None:
    """The base that the Dockerfile names, if the engine that answers happens to have it."""
    name = f"python:{sys.version_info[0]}.{sys.version_info[1]}-slim"
    try:
        with contextlib.closing(docker.from_env()) as client:
            client.images.get(name)
    except docker.errors.DockerException:
        return None
    return name


def _imported_base(client: docker.DockerClient) -> str:
    name, tag = "leveret-base", _base_file().stem
    try:
        client.images.get(f"{name}:{tag}")
    except ImageNotFound:
        client.api.import_image_from_file(str(_base_file()), repository=name, tag=tag)
    return f"{name}:{tag}"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2_000:]}{done.stderr[-4_000:]}")
