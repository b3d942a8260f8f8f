"""Scenario files: what was done, a command on each line, and under it what came out.

    # why this is a scenario
    open 1
    < 1 channel.open-ok

Lines that begin with `#`, and empty ones, are kept. Lines that begin with `<` are answers, and everything else is a command.
`pytest --rewrite` records the answers anew: the difference is read like code, and committed when it can be explained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

ANSWER = "< "


def replay(text: str, run: Callable[[str], Iterable[str]]) -> str:
    """The scenario with the answers that `run` gives to its commands now."""
    lines = []
    for line in text.splitlines():
        if line.startswith(ANSWER.strip()):
            continue
        lines.append(line)
        if line.strip() and not line.startswith("#"):
            lines += [ANSWER + answer for answer in run(line)]
    return "\n".join(lines) + "\n"


def check(path: Path, run: Callable[[str], Iterable[str]], *, rewrite: bool) -> None:
    """Compare a scenario file with what happens, or record what happens."""
    recorded = path.read_text()
    answered = replay(recorded, run)
    if rewrite:
        path.write_text(answered)
        return
    assert answered.splitlines() == recorded.splitlines(), (
        f"{path.name}: see the difference, or record it: pytest --rewrite"
    )
