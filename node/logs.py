"""How the node speaks to its operator: one line an event, never a line break or a control character from a client.

Names, addresses and properties that clients choose end up in log lines. Whatever could forge a line or colour a terminal is
escaped here, for every logger, so that no caller can forget it. Secrets are never passed to a logger.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

import msgspec

from node.config import LoggingSection

_ESCAPES = {code: f"\\x{code:02x}" for code in [*range(32), 127, *range(0x80, 0xA0)]}
_ESCAPES |= {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def escaped(text: str) -> str:
    """The same text on one line, without anything that a terminal would obey."""
    return text.translate(_ESCAPES)


class LineFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.123Z info leveret.amqp: text`; a traceback follows on indented lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        head = f"{moment}.{int(record.msecs):03d}Z {record.levelname.lower()} {record.name}: "
        line = head + escaped(record.getMessage())
        if record.exc_info:
            trace = self.formatException(record.exc_info)
            line += "".join(f"\n    {escaped(part)}" for part in trace.splitlines())
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object a line, for collectors."""

    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, Any] = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": escaped(record.getMessage()),
        }
        if record.exc_info:
            event["trace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(event).decode()


def set_up(section: LoggingSection) -> None:
    """Send everything under `leveret` to the configured place."""
    handler: logging.Handler = logging.FileHandler(section.file) if section.file else logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if section.json else LineFormatter())
    root = logging.getLogger("leveret")
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(section.level.upper())
    root.propagate = False
