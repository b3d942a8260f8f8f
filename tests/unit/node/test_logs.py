"""node/logs.py: one event is one line, whatever a client put into it."""

import errno
import json
import logging
import os
from pathlib import Path

import pytest

from node.logs import REPEAT_S, LibraryThrottle, escaped, set_up


def logged(tmp_path: Path, *, as_json: bool) -> str:
    file = tmp_path / "node.log"
    set_up(file=str(file), as_json=as_json)
    logging.getLogger("leveret.test").info("queue %s", "a\r\nforged line\x1b[31m")
    set_up()
    return file.read_text()


def test_a_client_cannot_forge_a_line(tmp_path: Path) -> None:
    text = logged(tmp_path, as_json=False)
    assert text.count("\n") == 1
    assert text.endswith("info leveret.test: queue a\\r\\nforged line\\x1b[31m\n")


@pytest.mark.parametrize("as_json", [False, True])
def test_a_name_that_is_no_utf8_or_turns_the_text_around_is_written_all_the_same(
    tmp_path: Path, as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        logging.getLogger("leveret"), "handlers", []
    )  # pytest's among them: xdist cannot send such text
    file = tmp_path / "node.log"
    set_up(file=str(file), as_json=as_json)
    logging.getLogger("leveret.test").info("queue %s", b"\xff \xe2\x80\xae reversed".decode("utf-8", "surrogateescape"))
    set_up()
    line = file.read_text().rstrip()
    assert "\u202e" not in line
    shown = json.loads(line)["message"] if as_json else line
    assert shown.endswith(r"queue \udcff \u202e reversed")


def test_json_lines_hold_the_same_text(tmp_path: Path) -> None:
    event = json.loads(logged(tmp_path, as_json=True))
    assert (event["level"], event["message"]) == ("info", "queue a\\r\\nforged line\\x1b[31m")


def test_the_audit_is_written_whatever_the_level_is(tmp_path: Path) -> None:
    file = tmp_path / "node.log"
    set_up(file=str(file), level="error")
    logging.getLogger("leveret.amqp").info("nothing that is asked for")
    logging.getLogger("leveret.audit").info("who did what")
    set_up()
    assert [line.partition(": ")[2] for line in file.read_text().splitlines()] == ["who did what"]


def test_plain_text_stays_as_it_is() -> None:
    assert escaped("größe 5 µs: 日本") == "größe 5 µs: 日本"


def test_libraries_speak_in_the_same_form_and_not_all_the_time(tmp_path: Path) -> None:
    file = tmp_path / "node.log"
    set_up(file=str(file))
    library = logging.getLogger("asyncio")
    for _ in range(100):
        library.error("Task exception was never retrieved\nfuture: <%s>", "Task")
    library.error("something else")
    for _ in range(3):
        logging.getLogger("leveret.test").warning("ours")
    set_up()
    lines = file.read_text().splitlines()
    assert [line.partition("Z ")[2] for line in lines] == [
        "error asyncio: Task exception was never retrieved\\nfuture: <Task>",
        "error asyncio: something else",
        *["warning leveret.test: ours"] * 3,
    ]


def test_what_a_library_repeats_is_counted(tmp_path: Path) -> None:
    throttle = LibraryThrottle()
    records = [logging.LogRecord("asyncio", logging.ERROR, "", 0, "again", (), None) for _ in range(4)]
    for place, record in enumerate(records):
        record.created = 0.0 if place < 3 else REPEAT_S
    assert [throttle.filter(record) for record in records] == [True, False, False, True]
    assert records[3].getMessage() == "again (and 2 times more since it was last told)"


def test_a_log_that_cannot_be_written_is_told_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a full disk each line was a traceback of two kilobytes on standard error, also for clients that failed to log in."""

    def full(_: logging.Handler) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    set_up(file=str(tmp_path / "node.log"))
    with monkeypatch.context() as patched:
        patched.setattr(logging.FileHandler, "flush", full)
        for number in range(20):
            logging.getLogger("leveret.test").warning("line %d", number)
    set_up()
    why = "[Errno 28] No space left on device"
    assert capsys.readouterr().err == f"leveret: the log of the node cannot be written: {why}\n"
