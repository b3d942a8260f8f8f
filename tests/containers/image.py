"""The image under test: deploy/Dockerfile, from wheels of this source, on a base of Debian's packages. No registry is asked.

What has to be fetched is kept in var/containers, under a name that changes with what it is made of:

    wheels-HASH/        what the builder is given: Dockerfile and wheels/, of this source and all that it needs
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

import docker
from docker.errors import ImageNotFound

from tests.containers import base_image
from tests.containers.base_image import ROOT, STATE
from tests.source_copy import copy_source

TAG = "leveret:test"
MADE_OF = "leveret.made-of"  # the label that tells whether the image is of this source
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
ENGINE_TIMEOUT_S = 300


def prepared() -> Path:
    """Fetch and make all that `build` needs: what the builder is to be given."""
    STATE.mkdir(parents=True, exist_ok=True)
    if not _base_of_registry():
        base_image.make()
    with tempfile.TemporaryDirectory(prefix="leveret-source-") as scratch:
        source = Path(scratch) / "source"
        copy_source(source)
        context = STATE / f"wheels-{_digest(source)}"
        if not context.exists():
            _make_wheels(source, context)
    return context


def build(context: Path) -> None:
    """Have the image TAG in the engine that answers, of what was prepared."""
    with contextlib.closing(docker.from_env(timeout=ENGINE_TIMEOUT_S)) as client:
        if made_of(client, TAG) != context.name:
            base = _base_of_registry() or base_image.imported(client)
            build_from(client, context, TAG, made_of=context.name, BASE=base)


def build_from(
    client: docker.DockerClient,
    context: Path,
    tag: str,
    *,
    made_of: str,
    dockerfile: Path | None = None,
    **arguments: str,
) -> None:
    """Without a network: all that is needed has to lie in the context, but for the Dockerfile, which may lie elsewhere."""
    client.images.build(
        path=str(context),
        dockerfile=None if dockerfile is None else str(dockerfile),
        tag=tag,
        buildargs=arguments,
        labels={MADE_OF: made_of},
        network_mode="none",
        rm=True,
        forcerm=True,
    )


def made_of(client: docker.DockerClient, tag: str) -> str | None:
    """None: the engine does not have it."""
    try:
        return client.images.get(tag).labels.get(MADE_OF)
    except ImageNotFound:
        return None


def _make_wheels(source: Path, context: Path) -> None:
    print("making wheels of this source and of what it needs", flush=True)
    for old in STATE.glob("wheels-*"):
        shutil.rmtree(old)
    made = source.with_name("context")
    made.mkdir()
    shutil.copy(DOCKERFILE, made)
    base_image.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(made / "wheels"), str(source)])
    shutil.move(made, context)


def _digest(source: Path) -> str:
    digest = hashlib.sha256(DOCKERFILE.read_bytes() + base_image.suite().encode())
    for path in sorted(source.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(source)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _base_of_registry() -> str | None:
    """The base that the Dockerfile names, if the engine that answers happens to have it."""
    name = f"python:{sys.version_info[0]}.{sys.version_info[1]}-slim"
    try:
        with contextlib.closing(docker.from_env()) as client:
            client.images.get(name)
    except docker.errors.DockerException:
        return None
    return name
