"""Every command that rabbitmqadmin has, found by asking each group for its help."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence

LISTED = re.compile(r"^  ([a-z0-9_]+)(?:\s|$)")
HELP_S_MAX = 60

# These ask no broker: they write a file of the caller's, hash a password, or print a script for a shell.
ASK_NOBODY = ("config_file", "passwords", "shell")


def commands_in_help(admin: Sequence[str], group: tuple[str, ...] = ()) -> Iterator[str]:
    """As they are called: `declare queue`."""
    shown = subprocess.run([*admin, *group, "--help"], capture_output=True, text=True, timeout=HELP_S_MAX, check=True)
    members = list(_listed(shown.stdout.splitlines()))
    if not members:
        yield " ".join(group)
    for one in members:
        yield from commands_in_help(admin, (*group, one))


def _listed(lines: Iterable[str]) -> Iterator[str]:
    """What stands under `Commands:`."""
    is_below = False
    for line in lines:
        if line and not line.startswith(" "):
            is_below = line == "Commands:"
        found = LISTED.match(line)
        if is_below and found and found[1] != "help":
            yield found[1]


def never_said(admin: Sequence[str], said: Iterable[str]) -> list[str]:
    """Commands of the help that none of these is."""
    known = [f"{one} " for one in said]
    asking = (one for one in commands_in_help(admin) if one.split()[0] not in ASK_NOBODY)
    return [one for one in asking if not any(line.startswith(f"{one} ") for line in known)]
