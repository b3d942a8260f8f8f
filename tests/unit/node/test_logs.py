"""node/logs.py: one event is one line, whatever a client put into it."""

import json
import logging
from pathlib import Path

from node.config import LoggingSection
from node.logs import escaped, set_up


def logged(tmp_path: Path, *, as_json: bool) -> str:
    file = tmp_path / "node.log"
    set_up(LoggingSection(file=str(file), json=as_json))
    logging.getLogger("leveret.test").info("queue %s", "a\r\nforged line\x1b[31m")
    set_up(LoggingSection())
    return file.read_text()


def test_a_client_cannot_forge_a_line(tmp_path: Path) -> None:
    text = logged(tmp_path, as_json=False)
    assert text.count("\n") == 1
    assert text.endswith("info leveret.test: queue a\\r\\nforged line\\x1b[31m\n")


def test_json_lines_hold_the_same_text(tmp_path: Path) -> None:
    event = json.loads(logged(tmp_path, as_json=True))
    assert (event["level"], event["message"]) == ("info", "queue a\\r\\nforged line\\x1b[31m")


def test_plain_text_stays_as_it_is() -> None:
    assert escaped("größe 5 µs: 日本") == "größe 5 µs: 日本"
