"""Pythons for workers of Spark, with what Spark needs and nothing else; and a wheel of this source.

A worker that has one of them cannot lean on the directory of the source, to which this Python's own environment may point.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

from tests.source_copy import ROOT, copy_source

BUILD_TIMEOUT_S = 240.0
OF_SPARK = ("pyspark", "pyarrow", "pandas")
PROJECT_NAME = re.compile(r"[\w.-]+")


def bare_python(directory: Path) -> Path:
    """An environment's Python with the packages of this one that Spark's workers need."""
    venv.create(directory, symlinks=True)
    for project in with_requirements(OF_SPARK):
        one = distribution(project)
        for name in {file.parts[0] for file in one.files or () if file.parts[0] not in ("..", "__pycache__")}:
            (packages_of(directory) / name).symlink_to(one.locate_file(name))
    return directory / "bin" / "python"


def with_requirements(projects: Iterable[str]) -> set[str]:
    """Of those that are installed, without extras."""
    found: set[str] = set()
    wanted = list(projects)
    while wanted:
        project = wanted.pop()
        if project not in found:
            found.add(project)
            required = [one for one in distribution(project).requires or () if "extra ==" not in one]
            wanted += [PROJECT_NAME.findall(one)[0] for one in required]
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
