"""Pythons for workers of Spark, with what this one has and without Leveret; and a wheel of this source.

A worker that has one of them cannot lean on the directory of the source, to which this Python's own environment may point.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path
from zipfile import ZipFile

from tests.source_copy import ROOT, copy_source

BUILD_TIMEOUT_S = 240.0
OURS = re.compile(r"__editable__|leveret|.*\.pth$|__pycache__$")


def bare_python(directory: Path) -> Path:
    """An environment's Python that has all that this one has, but nothing of Leveret."""
    venv.create(directory, symlinks=True)
    ours = {one.partition(".")[0] for one in packages()}
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if path.name not in ours and not OURS.match(path.name):
            (packages_of(directory) / path.name).symlink_to(path)
    return directory / "bin" / "python"


def packages() -> list[str]:
    """Of Leveret."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found: list[str] = project["tool"]["setuptools"]["packages"]
    return found


def packages_of(directory: Path) -> Path:
    """Where the packages of an environment lie."""
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(directory), "platbase": str(directory)}))


def plain_wheel(scratch: Path) -> Path:
    """As it is built where there is no compiler."""
    source, wheels = scratch / "source", scratch / "wheels"
    copy_source(source)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run(
        [*command, "--wheel-dir", str(wheels), str(source)],
        env=os.environ | {"CC": "false"},
        check=True,
        timeout=BUILD_TIMEOUT_S,
    )
    (wheel,) = wheels.iterdir()
    return wheel


def with_kernels(plain: Path, directory: Path) -> Path:
    """The same wheel with the kernels that were compiled for this Python: to compile them again takes half a minute."""
    whole = directory / plain.name
    directory.mkdir()
    whole.write_bytes(plain.read_bytes())
    with ZipFile(whole, "a") as files:
        for kernel in (ROOT / "native").glob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}"):
            files.write(kernel, f"native/{kernel.name}")
    return whole
