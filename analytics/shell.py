"""Several questions in one session: Spark is started and the logs are read once, which is most of what one answer takes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator

from analytics.show import ReaderGone

PROMPT = "leveret-analytics> "
HELP = "A question as on the command line (`dead orders`), or SQL over the tables `lives`, `queues` and `actors`; `quit` ends."
ENDS = frozenset({"quit", "exit"})


def shell(lines: Iterable[str], commands: Collection[str], ask: Callable[[list[str]], None]) -> None:
    """Each line is a question: its first word is a command, or all of it is SQL. What goes wrong with one is said, and the next
    is read."""
    for line in lines:
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0] in ENDS:
            return
        if words[0] in ("help", "?"):
            print(f"{HELP}\nCommands: {', '.join(sorted(commands))}")
            continue
        try:
            ask(shlex.split(line) if words[0] in commands else ["sql", line.strip().rstrip(";")])
        except SystemExit:
            continue  # the parser of arguments has said what is wrong
        except ReaderGone:
            raise
        except Exception as error:  # Spark's own are many, and their first line is what people need
            print(f"leveret-analytics: {str(error).strip().partition(chr(10))[0]}", file=sys.stderr)


def lines_of_terminal() -> Iterator[str]:
    """With a prompt, and a history of lines, where somebody types."""
    if not sys.stdin.isatty():
        yield from sys.stdin
        return
    import readline  # noqa: F401  # input() uses it once it is imported

    print(HELP)
    while True:
        try:
            yield input(PROMPT)
        except (EOFError, KeyboardInterrupt):
            print()
            return
