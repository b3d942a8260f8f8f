"""Where a suite lives while it runs: its source and its virtual environment, made once and kept.

Both are under the cache directory, `<cache>/<suite>/source-<version>` and `<cache>/<suite>/venv`. What was made from
other pins is made again. Nothing of a suite is ever part of this project.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from tests.compat.catalog import Suite

DOWNLOAD_SECONDS_MAX = 300


class NoSource(RuntimeError):
    """The source of a suite could not be had; the message says what to do."""


def source_of(suite: Suite, cache: Path, given: Path | None) -> Path:
    """The root of the suite's source: `given` if there is one, else the cached or downloaded archive."""
    if given is not None:
        if not given.is_dir():
            raise NoSource(f"--source {suite.name}={given}: no such directory")
        return given.resolve()
    root = cache / suite.name / f"source-{suite.version}"
    if not root.is_dir():
        with tempfile.TemporaryDirectory() as scratch:
            _unpack(_download(suite, Path(scratch)), root)
    return root


def interpreter_of(suite: Suite, cache: Path) -> Path:
    """Python of the suite's own virtual environment, with the pinned packages in it."""
    venv = cache / suite.name / "venv"
    python = venv / "bin" / "python"
    stamp = venv / "installed.txt"
    wanted = "\n".join((f"{suite.project}=={suite.version}", *suite.requirements)) + "\n"
    if not stamp.is_file() or stamp.read_text() != wanted:
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted.split()],
            check=True,
        )
        stamp.write_text(wanted)
    return python


def _download(suite: Suite, scratch: Path) -> Path:
    archive = _download_url(suite, scratch) if suite.archive_url else _download_sdist(suite, scratch)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if suite.sha256 and digest != suite.sha256:
        raise NoSource(f"{archive.name} has SHA-256 {digest}, the pinned one is {suite.sha256}: not used")
    return archive


def _download_sdist(suite: Suite, scratch: Path) -> Path:
    # Only the project itself comes as source: the tools that pip builds its metadata with may be wheels.
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-binary", suite.project, "--dest", str(scratch), f"{suite.project}=={suite.version}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS_MAX, check=False)
    archives = list(scratch.glob("*.tar.gz"))
    if done.returncode or len(archives) != 1:
        raise NoSource(f"pip could not download {suite.project} {suite.version}:\n{done.stderr.strip()}")
    return archives[0]


def _download_url(suite: Suite, scratch: Path) -> Path:
    archive = scratch / f"{suite.name}.tar.gz"
    try:
        with urllib.request.urlopen(suite.archive_url, timeout=60) as answer, archive.open("wb") as out:
            shutil.copyfileobj(answer, out)
    except (urllib.error.URLError, OSError) as error:
        raise NoSource(
            f"{suite.project} {suite.version} ships no tests in its sdist, and {suite.archive_url} "
            f"cannot be reached ({error}): unpack that archive and give --source {suite.name}=DIR"
        ) from error
    return archive


def _unpack(archive: Path, root: Path) -> None:
    staging = root.with_name(root.name + ".new")
    shutil.rmtree(staging, ignore_errors=True)
    with tarfile.open(archive) as tar:
        if hasattr(tarfile, "data_filter"):
            tar.extractall(staging, filter="data")
        else:  # Python 3.11.2, that of Debian 12
            tar.extractall(staging)
    (top,) = staging.iterdir()
    top.rename(root)
    staging.rmdir()
