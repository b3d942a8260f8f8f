"""What an operator mistypes is answered with what was wrong and what can be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

import analytics.__main__
from analytics.__main__ import EXIT_UNREAD, EXIT_USAGE, main, print_any_name
from analytics.command_line import parser
from analytics.inputs import log_files
from analytics.jobs.answer import EXIT_HOLDS
from storage.names import LOG_DIRECTORY, log_file
from tests.unit.analytics.past_world import PastWorld
from tests.unit.analytics.test_coverage import logged

DATA = ["--data", "/var/lib/leveret"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["latency", "--by", "color"], "'color' are no groups: give some of queue,consumer,hour"),
        (["hot", "--by", "state"], "'state' are no groups: give some of queue,publisher"),
        (["queue", "orders", "--at", "noon"], "'noon' is no time: ISO, UTC if it names no zone"),
        (["audit", "--since=-5y"], "'-5y' is no time"),
        (["follow", "--every", "0"], "'0' is no number of seconds from 0.1 to 3600"),
        (["follow", "--every", "soon"], "'soon' is no number of seconds"),
        (["life", "--header", "color"], "'color' is no header: write NAME=VALUE"),
        (["--limit", "0", "queues"], "'0' is no number above 0"),
        (["duplicates", "--within=-5"], "'-5' is no number above 0"),
    ],
)
def test_what_is_wrong_is_said_with_what_can_be_written(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args([*DATA, *words])
    assert said in capsys.readouterr().err


def test_a_file_that_cannot_be_opened_is_named_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As one without permission, or on a disk that fails."""
    (tmp_path / LOG_DIRECTORY).mkdir()
    whole, looped = (tmp_path / log_file(number) for number in (1, 2))
    whole.write_bytes(b"x")
    looped.write_bytes(b"x")
    files = log_files([str(tmp_path)])
    looped.unlink()
    looped.symlink_to(looped.name)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(analytics.__main__, "log_files", lambda _: files)
        assert main(["--data", str(tmp_path), "audit"]) == EXIT_USAGE
    assert capsys.readouterr().err.startswith("leveret-analytics: cannot open ")


def test_two_copies_of_one_nodes_data_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a backup beside it: `unroutable`, `hot` and SQL counted all that happened twice."""
    world = PastWorld(tmp_path / "n1", 1)
    world.live(1)
    assert main(["--data", str(tmp_path), "unroutable"]) != EXIT_USAGE
    shutil.copytree(tmp_path / "n1", tmp_path / "monday")
    capsys.readouterr()
    assert main(["--data", str(tmp_path), "unroutable"]) == EXIT_USAGE
    assert "'monday' and 'n1' are copies of one log: name one of them" in capsys.readouterr().err


PRINTING = (
    "audit", "streams", "life --message-id m2", "unroutable", "queue c --at=-1s", "follow --times 1 --every 0.1",
)  # fmt: skip


@pytest.mark.parametrize("words", [*PRINTING, *(f"--json {one}" for one in PRINTING)])
def test_a_command_whose_output_nobody_reads_ends_with_one_and_no_word(tmp_path: Path, words: str) -> None:
    """It was 64 with a sentence about a pipe, or 120 with what Python says when it cannot write at its end."""
    asked = [sys.executable, "-m", "analytics", "--data", str(logged(tmp_path, 1, 2, 3)), *words.split()]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(asked, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (EXIT_UNREAD, b"")


@pytest.mark.parametrize("words", ["audit", "streams", "--json audit", "--json follow --times 1 --every 0.1"])
def test_with_a_closed_output_a_command_ends_as_it_would_otherwise(tmp_path: Path, words: str) -> None:
    """It ended with a traceback, for Python has no output then."""
    asked = [sys.executable, "-m", "analytics", "--data", str(logged(tmp_path, 1, 2, 3)), "--tail", *words.split()]
    done = subprocess.run(["/bin/sh", "-c", 'exec "$@" >&-', "sh", *asked], stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (EXIT_HOLDS, b"")


def test_a_value_of_a_header_may_have_an_equals_sign() -> None:
    assert parser().parse_args([*DATA, "life", "--header", "trace=a=b"]).header == ("trace", "a=b")


def test_a_name_is_written_whatever_characters_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    written = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(written, encoding="ascii"))
    print_any_name()
    print("caf\u00e9")
    sys.stdout.flush()
    assert written.getvalue() == b"caf\\xe9\n"
