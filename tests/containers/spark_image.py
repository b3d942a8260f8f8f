"""The image of the profile `analytics`: deploy/analytics.Dockerfile on the nodes' image, on a base that has Java already.

Spark and what it needs is kept in var/containers, as it is fetched once for many states of this source:

    spark-wheels-HASH/    what the builder is given: wheels/
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

import docker

from tests.containers import base_image, image
from tests.containers.base_image import ROOT, STATE

TAG = "leveret-analytics:test"
NODE_TAG = "leveret:test-java"
DOCKERFILE = ROOT / "deploy" / "analytics.Dockerfile"
CONSTRAINTS = ROOT / "constraints.txt"
PACKAGES = f"{base_image.PACKAGES},default-jre-headless"  # what the Dockerfile would install
ENGINE_TIMEOUT_S = 600  # it is given more than a gigabyte


def prepare() -> None:
    """Fetch and make all that `build` needs beside what the nodes' image is made of."""
    STATE.mkdir(parents=True, exist_ok=True)
    base_image.make(PACKAGES)
    if not _context().exists():
        _make_wheels(_context())


def build() -> None:
    """Have the image TAG in the engine that answers, of what was prepared and the wheels of the nodes' image."""
    with contextlib.closing(docker.from_env(timeout=ENGINE_TIMEOUT_S)) as client:
        wheels = image.made_of(client, image.TAG)
        assert wheels is not None, "the nodes' image comes first"
        if image.made_of(client, NODE_TAG) != wheels:
            base = base_image.imported(client, PACKAGES)
            image.build_from(client, STATE / wheels, NODE_TAG, made_of=wheels, BASE=base)
        all_of_it = f"{wheels} {_context().name} {_digest(DOCKERFILE.read_text())}"
        if image.made_of(client, TAG) != all_of_it:
            image.build_from(client, _context(), TAG, dockerfile=DOCKERFILE, made_of=all_of_it, NODE=NODE_TAG)


def _make_wheels(context: Path) -> None:
    print("making wheels of Spark and of what it needs", flush=True)
    for old in STATE.glob("spark-wheels-*"):
        shutil.rmtree(old)
    with tempfile.TemporaryDirectory(prefix="leveret-spark-") as scratch:
        made = Path(scratch) / "context"
        wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--constraint", str(CONSTRAINTS)]
        base_image.run([*wheel, "--wheel-dir", str(made / "wheels"), *_extra()])
        shutil.move(made, context)


def _context() -> Path:
    recipe = repr((base_image.suite(), _extra(), CONSTRAINTS.read_text()))
    return STATE / f"spark-wheels-{_digest(recipe)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _extra() -> list[str]:
    """What leveret-server[analytics] needs beside leveret-server."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return list(project["optional-dependencies"]["analytics"])
