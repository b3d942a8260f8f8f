"""What is missing for Spark is said in one sentence, before anything is started."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest

from analytics.spark.session import (
    FEWEST_TASKS,
    SOCKET_PATH_BYTES_MAX,
    SOCKETS,
    TASKS_OF_A_SHUFFLE,
    NoSpark,
    check_java,
    divide_by_cores,
    java_version,
    said_by,
    socket_directory,
    socket_settings,
    spark_session,
)


def java(directory: Path, script: str) -> Path:
    """A `java` that does this, below a directory that may be JAVA_HOME."""
    command = directory / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    return command


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
    ],
)
def test_the_version_of_a_java_is_read_as_it_says_it(tmp_path: Path, says: str, version: int) -> None:
    assert java_version(str(java(tmp_path, f"echo '{says}' >&2"))) == version


def test_an_old_java_is_named_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = java(tmp_path, "echo 'java version \"11.0.2\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoSpark, match=f"Java 17 or later, and {command} is Java 11.*openjdk-17-jre-headless"):
        check_java()


def test_no_java_is_said_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoSpark, match=r"there is no java here.*openjdk-17-jre-headless"):
        check_java()


def test_a_java_that_does_not_start_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoSpark, match="does not say which Java it is: 'broken"):
        java_version(str(java(tmp_path, "echo broken")))
    with pytest.raises(NoSpark, match="cannot be started"):
        java_version(str(tmp_path / "none"))


def test_without_the_extra_one_sentence_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(NoSpark, match=r"pip install 'leveret-server\[analytics\]'"):
        spark_session()


@pytest.mark.parametrize(
    ("said", "divided"),
    [
        ({}, {TASKS_OF_A_SHUFFLE: "12", FEWEST_TASKS: "12"}),
        ({TASKS_OF_A_SHUFFLE: "7"}, {FEWEST_TASKS: "12"}),
        ({TASKS_OF_A_SHUFFLE: "7", FEWEST_TASKS: "2"}, {}),
    ],
)
def test_work_is_divided_by_cores_unless_the_user_says_how(said: dict[str, str], divided: dict[str, str]) -> None:
    context = SimpleNamespace(getConf=lambda: said, defaultParallelism=3)
    settings: dict[str, str] = {}
    session = SimpleNamespace(sparkContext=context, conf=SimpleNamespace(set=settings.__setitem__))
    divide_by_cores(session)  # type: ignore[arg-type]  # it has what is asked for
    assert settings == divided


def test_nobody_else_may_enter_where_the_sockets_of_workers_are() -> None:
    """Spark takes what connects to them for its workers, without asking."""
    assert socket_directory().stat().st_mode & 0o777 == 0o700


def test_workers_are_spoken_to_over_tcp_where_the_path_of_a_socket_would_be_too_long() -> None:
    directories = [Path("/" + "d" * length) for length in range(1, 200)]
    taken = [directory for directory in directories if socket_settings(directory)]
    assert max(len(bytes(directory / f".{uuid4()}.sock")) for directory in taken) == SOCKET_PATH_BYTES_MAX
    assert socket_settings(taken[0]) == {f"{SOCKETS}.enabled": "true", f"{SOCKETS}.dir": str(taken[0])}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[DIVIDE_BY_ZERO] Division by zero.\n== SQL ==\nselect 1 / 0", "[DIVIDE_BY_ZERO] Division by zero."),
        (
            "\n  An exception was thrown from the Python worker.\nTraceback (most recent call last):\n  File ...\n"
            "OSError: [Errno 28] No space left on device\n\n",
            "OSError: [Errno 28] No space left on device",
        ),
        ("", "RuntimeError"),
    ],
)
def test_what_fails_on_workers_is_one_sentence(text: str, said: str) -> None:
    """As a conversion to a disk that is full: it was a page of tracebacks."""
    assert said_by(RuntimeError(text)) == said
