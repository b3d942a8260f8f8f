"""How the node speaks to its operator: one line an event, never a line break or a control character from a client.

Names, addresses and properties that clients choose end up in log lines. Whatever could forge a line or colour a terminal is
escaped here, for every logger, so that no caller can forget it. Secrets are never passed to a logger.

Libraries log under names of their own, and asyncio tells of every exception that it meets: they get the same form, and a limit.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from broker.activity.ring import NumberedRing
from broker.login.log_throttle import LogThrottle
from front.node_ports import LogLine

OURS = "leveret"
AUDIT = f"{OURS}.audit"
REPEAT_S = 10.0
TAIL_LINES = 1_000
TAIL_LINE_LENGTH_MAX = 4_096

_ESCAPES = {code: f"\\x{code:02x}" for code in [*range(32), 127, *range(0x80, 0xA0)]}
_ESCAPES |= {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t", 0x2028: "\\u2028", 0x2029: "\\u2029"}
# What turns the direction of the text that follows, and bytes of a name that were no UTF-8, which no file would take.
_ESCAPES |= {
    code: f"\\u{code:04x}" for code in [*range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000)]
}


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


class LibraryThrottle(logging.Filter):
    """Of libraries, each first line of a logger once in REPEAT_S, with how often it was left out; ours as they are."""

    def __init__(self) -> None:
        super().__init__()
        self._throttle = LogThrottle(REPEAT_S)

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == OURS or record.name.startswith(f"{OURS}."):
            return True
        suppressed = self._throttle.may_log(f"{record.name} {str(record.msg).partition(chr(10))[0]}", record.created)
        if suppressed:
            record.msg, record.args = f"{record.getMessage()} (and {suppressed} times more since it was last told)", ()
        return suppressed is not None


class UnwritableLog(logging.Handler):
    """Where nothing can be written, as on a full disk: standard error is told why once in REPEAT_S, and not with a traceback of
    each line, which whoever fails to log in again and again could have any number of."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._unwritten = LogThrottle(REPEAT_S)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802, the name is logging's
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif sys.stderr is not None and self._unwritten.may_log("", time.monotonic()) is not None:
            with suppress(OSError):
                print(f"leveret: the log of the node cannot be written: {error}", file=sys.stderr, flush=True)


class _LogFile(UnwritableLog, logging.FileHandler):
    """The file that the configuration names."""


class _LogStream(UnwritableLog, logging.StreamHandler):  # type: ignore[type-arg]  # at run time it takes no arguments
    """To standard error."""


def set_up(*, level: str = "info", file: str = "", as_json: bool = False) -> None:
    """Send everything under `leveret`, and the warnings of libraries, to this file, or without one to standard error."""
    handler: logging.Handler = _LogFile(file) if file else _LogStream(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else LineFormatter())
    handler.addFilter(LibraryThrottle())
    ours, root = logging.getLogger(OURS), logging.getLogger()
    for logger in (ours, root):
        for old in list(logger.handlers):
            if any(isinstance(part, LibraryThrottle) for part in old.filters):  # set up before, by us
                logger.removeHandler(old)
                old.close()
        logger.addHandler(handler)
    ours.setLevel(level.upper())
    logging.getLogger(AUDIT).setLevel(logging.INFO)  # whatever the level of the others, which operators change
    ours.propagate = False


_TRACES = logging.Formatter()


class RecentLog(logging.Handler):
    """The last lines, for operators who look on. Fulfils front.node_ports.LogTailPort."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(LibraryThrottle())
        self._lines: NumberedRing[LogLine] = NumberedRing(TAIL_LINES, lambda: int(time.time() * 1000))

    def emit(self, record: logging.LogRecord) -> None:
        text = escaped(record.getMessage())
        if record.exc_info:
            text = "\n".join([text, *map(escaped, _TRACES.formatException(record.exc_info).splitlines())])
        text = text[:TAIL_LINE_LENGTH_MAX]
        self._lines.add(LogLine(int(record.created * 1000), record.levelname.lower(), record.name, text))

    def after(self, number: int) -> Iterator[tuple[int, LogLine]]:
        """Any thread may add one meanwhile."""
        return self._lines.after(number)


def tail() -> RecentLog:
    """Of what is logged from now on, by us and by libraries."""
    handler = RecentLog()
    for name in (OURS, None):
        logging.getLogger(name).addHandler(handler)
    return handler


def end_tail(handler: RecentLog) -> None:
    for name in (OURS, None):
        logging.getLogger(name).removeHandler(handler)
