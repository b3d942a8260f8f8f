"""What README.md, docs/ and deploy/ promise is there. README's commands and programs are run by test_readme.py."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.running_node import RunningNode

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
TARGETS = re.findall(r"^    (make \w+)", README, re.MULTILINE)


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, input="secret\n", cwd=ROOT)


def test_the_commands_of_the_readme_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert TARGETS == ["make run", "make cluster", "make test"]
    for target in TARGETS:
        assert re.search(rf"^{target.removeprefix('make ')}:", makefile, re.MULTILINE)


def test_links_lead_somewhere() -> None:
    missing = []
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for link in re.findall(r"\]\((?!https?:)([^)#\s]+)\)", page.read_text()):
            if not (page.parent / link).exists():
                missing.append(f"{page.relative_to(ROOT)}: {link}")
    assert missing == []


def test_the_images_health_check_tells_a_node_from_none(node: RunningNode) -> None:
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text().replace("\\\n", "")
    found = re.search(r"^HEALTHCHECK .* CMD (\[.*\])$", dockerfile, re.MULTILINE)
    assert found is not None
    python, option, program = json.loads(found[1])
    assert (python, option) == ("python", "-c")
    assert run([sys.executable, "-c", program.replace("127.0.0.1:5680", f"127.0.0.1:{node.grpc[1]}")]).returncode == 0
    assert run([sys.executable, "-c", program.replace("127.0.0.1:5680", "127.0.0.1:1")]).returncode != 0


def test_the_image_starts_as_nobody_special_and_holds_no_secret() -> None:
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    assert re.findall(r"^ARG BASE=(\S+)", dockerfile, re.MULTILINE) == ["python:3.11-slim"]
    assert re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE) == ["${BASE}"] * 2
    assert dockerfile.index("\nUSER leveret") < dockerfile.index("\nENTRYPOINT")
    assert not re.search(r"password|secret|token", dockerfile, re.IGNORECASE)
    installed = set(re.findall(r"^!(\S+)", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {name.partition(".")[0] for name in packages} - {"leveret"} | {"client"}
    assert installed == folders | {"wheels", "constraints.txt", "pyproject.toml", "setup.py", "README.md", "LICENSE"}


@pytest.mark.parametrize("option", ["NoNewPrivileges=yes", "ProtectSystem=strict", "DynamicUser=yes", "LimitCORE=0"])
def test_the_unit_is_hardened(option: str) -> None:
    assert f"\n{option}\n" in (ROOT / "deploy" / "leveret.service").read_text()
