"""Several questions in one session: Spark is started and the logs are read once, which is most of what one answer takes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator

from analytics.jobs.answer import EXIT_HOLDS, EXIT_USAGE, worst
from analytics.show import ReaderGone

PROMPT = "leveret-analytics> "
HELP = "A question as on the command line (`dead orders`), or SQL over the tables `lives`, `queues` and `actors`; `quit` ends."
ENDS = frozenset({"quit", "exit"})


def shell(lines: Iterable[str], commands: Collection[str], ask: Callable[[list[str]], int]) -> int:
    """Each line is a question: its first word is a command, or all of it is SQL. What goes wrong with one is said, and the next
    is read. Returns the worst that they ended with."""
    code = EXIT_HOLDS
    for line in lines:
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0] in ENDS:
            break
        if words[0] in ("help", "?"):
            print(f"{HELP}\nCommands: {', '.join(sorted(commands))}")
            continue
        code = worst([code, _asked(line, is_command=words[0] in commands, ask=ask)])
    return code


def _asked(line: str, *, is_command: bool, ask: Callable[[list[str]], int]) -> int:
    try:
        return ask(shlex.split(line) if is_command else ["sql", line.strip().rstrip(";")])
    except SystemExit as end:  # the parser of arguments has said what is wrong, or what there is
        return EXIT_USAGE if end.code else EXIT_HOLDS
    except ReaderGone:
        raise
    except Exception as error:  # Spark's own are many, and their first line is what people need
        print(f"leveret-analytics: {str(error).strip().partition(chr(10))[0]}", file=sys.stderr)
        return EXIT_USAGE


def lines_of_terminal() -> Iterator[str]:
    """With a prompt, and a history of lines, where somebody types."""
    if not is_typed():
        yield from sys.stdin or ()
        return
    import readline  # noqa: F401  # input() uses it once it is imported

    print(HELP)
    while True:
        try:
            yield input(PROMPT)
        except (EOFError, KeyboardInterrupt):
            print()
            return


def is_typed() -> bool:
    """Whether somebody sits at the terminal: then each answer was seen. Who closes the input (`<&-`) asks nothing."""
    return sys.stdin is not None and sys.stdin.isatty()
