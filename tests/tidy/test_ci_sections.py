"""What .ci/sections promises .ci/run: only missing packages are installed, and what fails anywhere fails the run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SECTIONS = Path(__file__).parents[2] / ".ci" / "sections"
TOOLS = ("bash", "cat", "mktemp", "nice", "rm", "setsid")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A PATH with little in it. Who runs this is root; apt-get notes what it is asked for, and installs nothing."""
    for tool in TOOLS:
        (tmp_path / tool).symlink_to(shutil.which(tool) or tool)
    command(tmp_path, "id", "echo 0")
    command(tmp_path, "apt-get", f'echo "$*" >>{tmp_path}/asked')
    return tmp_path


def command(machine: Path, name: str, script: str) -> None:
    (machine / name).write_text(f"#!{shutil.which('bash')}\n{script}\n")
    (machine / name).chmod(0o755)


def run(machine: Path, script: str) -> subprocess.CompletedProcess[str]:
    text = f"set -euo pipefail\nsource {SECTIONS}\ntrap summary EXIT\n{script}\necho came to the end"
    environment = {"PATH": str(machine), "TMPDIR": str(machine)}
    return subprocess.run(
        ["bash", "-c", text], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_compiled_modules_are_kept_whatever_the_environment_says() -> None:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    sourced = ["bash", "-c", f"source {SECTIONS}; env"]
    made = ["make", "--no-print-directory", "-C", str(SECTIONS.parents[1]), "--eval", "shown: ; @env", "shown"]
    for command_line in (sourced, made):
        shown = subprocess.run(command_line, env=environment, capture_output=True, text=True, timeout=60, check=True)
        assert "PATH=" in shown.stdout and "PYTHONDONTWRITEBYTECODE" not in shown.stdout


def installed(machine: Path, *names: str, update: str = "exit 0") -> None:
    """From now on apt-get brings these commands."""
    lines = [f"printf '#!/bin/sh\\n' >{machine}/{name}; {shutil.which('chmod')} +x {machine}/{name}" for name in names]
    asked = f'echo "$*" >>{machine}/asked'
    command(machine, "apt-get", "\n".join([asked, f'if [ "$1" = update ]; then {update}; fi', *lines]))


NEEDS = "section page; if needs chromedriver=chromium-driver npm=npm; then echo tests run; fi"


def test_only_what_is_missing_is_installed(machine: Path) -> None:
    command(machine, "npm", "")
    installed(machine, "chromedriver")
    done = run(machine, NEEDS)
    assert done.returncode == 0 and "tests run" in done.stdout
    assert (machine / "asked").read_text().splitlines() == ["update -qq", "install -y -qq chromium-driver"]


def test_nothing_is_asked_of_apt_where_all_is_there(machine: Path) -> None:
    for name in ("npm", "chromedriver"):
        command(machine, name, "")
    assert "tests run" in run(machine, NEEDS).stdout
    assert not (machine / "asked").exists()


def test_what_can_be_installed_though_not_every_source_of_packages_answers_is_there(machine: Path) -> None:
    command(machine, "npm", "")
    installed(machine, "chromedriver", update="exit 100")
    done = run(machine, NEEDS)
    assert done.returncode == 0 and "tests run" in done.stdout
    assert "apt-get update failed" in done.stderr


@pytest.mark.parametrize("apt", ["exit 100", '[ "$1" = install ] || exit 100', '[ "$1" = update ] || exit 100', ""])
def test_a_run_as_root_fails_where_something_is_missing_in_the_end(machine: Path, apt: str) -> None:
    command(machine, "apt-get", apt)
    done = run(machine, NEEDS)
    assert done.returncode == 1
    assert "tests run" not in done.stdout and "came to the end" not in done.stdout
    assert "page: FAILED" in done.stdout


def test_another_user_is_told_what_was_not_run(machine: Path) -> None:
    command(machine, "id", "echo 1000")
    done = run(machine, NEEDS)
    assert done.returncode == 0 and "came to the end" in done.stdout
    assert "not run: chromedriver npm must be there" in done.stdout and "tests run" not in done.stdout
    assert not (machine / "asked").exists()


def steps(machine: Path, script: str) -> None:
    command(machine, "steps", f"set -euo pipefail\ncomputed=$1\nsource {SECTIONS}\n{script}")


def left_behind(machine: Path) -> list[Path]:
    return list(machine.glob("tmp.*"))


def test_what_is_computed_beside_the_sections_is_printed_whole_once(machine: Path) -> None:
    steps(machine, "step 'the first' echo one\nstep 'the second' echo two")
    done = run(machine, f"compute {machine}/steps\nsection tests\necho tested\nwait_for_computing")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines.count("one") == lines.count("two") == 1
    assert lines[lines.index("one") - 1] == "== beside the sections: the first"
    assert lines[-1].endswith("in all") and sum("beside the sections: the second" in line for line in lines) == 3
    assert not left_behind(machine)


def test_processor_time_is_told_of_each_section_and_step(machine: Path) -> None:
    command(machine, "busy", "(ulimit -t 1; while :; do :; done); (ulimit -t 1; while :; do :; done); exit 0")
    steps(machine, "step 'the first' busy")
    done = run(machine, f"compute {machine}/steps\nsection tests\nbusy\nwait_for_computing")
    pattern = r" *\d+ min \d\d s, *\d+ min (\d\d) s of processor time  (.*)"
    told = [re.fullmatch(pattern, line) for line in done.stdout.partition("== times\n")[2].splitlines()]
    found = {one[2]: int(one[1]) for one in told if one is not None}
    assert found["tests"] >= 1 and found["beside the sections: the first"] >= 1 and found["in all"] >= 2, done.stdout
    assert len(found) == len(told) == 4


def test_a_step_that_fails_fails_the_run_with_its_output_and_ends_the_steps(machine: Path) -> None:
    command(machine, "broken", "echo why; exit 3")
    steps(machine, "step 'the first' broken\nstep 'the second' echo two")
    done = run(machine, f"compute {machine}/steps\nsection tests\nwait_for_computing")
    assert done.returncode == 3
    assert "why" in done.stdout and "the first: FAILED with status 3" in done.stdout
    assert "two" not in done.stdout and "came to the end" not in done.stdout
    assert not left_behind(machine)


def test_a_section_that_fails_ends_what_computes_beside_it(machine: Path) -> None:
    steps(machine, f'echo $$ >{machine}/pid\nstep endless bash -c "while :; do :; done"')
    done = run(machine, f"compute {machine}/steps\nuntil [ -s {machine}/pid ]; do :; done\nsection tests\n(exit 4)")
    assert done.returncode == 4 and "tests: FAILED with status 4" in done.stdout
    assert not Path("/proc", (machine / "pid").read_text().strip()).exists()
    assert not left_behind(machine)
