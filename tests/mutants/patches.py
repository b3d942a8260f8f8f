"""Patches: unified diffs of one file, with the story of the bug that they put back above them.

    Old terms are counted (LogCabin 44).          what the bug is, in lines above the diff
    ...
    --- a/raft/core/leader.py
    +++ b/raft/core/leader.py
    @@ -88,1 +88,1 @@                             line numbers are for readers: the lines themselves say where
    -    if index <= s.commit or index < lead.first_index:
    +    if index <= s.commit:

A patch fits where its old lines stand in the file, and they must stand there exactly once. So a patch stays good while the file
around it changes, and says so when the lines it is about are others.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

PATCHES = tuple(Path(__file__).parent / layer for layer in ("raft", "brokers"))
LINES_MAX = 3  # that a mutant adds or takes away, each: a bug is a slip, not a rewriting


class PatchError(Exception):
    """A patch is none, or no longer fits the tree."""


class Hunk(NamedTuple):
    """Lines that stand in the file, and those that take their place."""

    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Patch:
    """One mutant."""

    name: str
    story: str  # the bug that it puts back
    path: str  # of the file, below the root
    hunks: tuple[Hunk, ...]

    @property
    def title(self) -> str:
        """The first sentence of the story."""
        return self.story.partition("\n")[0]

    def apply(self, text: str) -> str:
        """The mutant's text of the file. Raises PatchError."""
        lines = text.splitlines()
        for hunk in self.hunks:
            places = [at for at in range(len(lines)) if tuple(lines[at : at + len(hunk.old)]) == hunk.old]
            if len(places) != 1:
                wanted = next((line.strip() for line in hunk.old if line not in hunk.new), hunk.old[0].strip())
                raise PatchError(
                    f"{self.name} does not apply: its lines around '{wanted}' stand {len(places)} times in {self.path}, "
                    "not once. Write the patch anew against the code as it is now"
                )
            lines[places[0] : places[0] + len(hunk.old)] = hunk.new
        return "\n".join(lines) + "\n"


def all_patches() -> list[Patch]:
    """In the order of their names."""
    return [read(path) for path in paths()]


def paths() -> list[Path]:
    """Of all patches."""
    return sorted((path for layer in PATCHES for path in layer.glob("*.patch")), key=lambda path: path.stem)


def read(path: Path) -> Patch:
    """Raises PatchError."""
    return parse(path.stem, path.read_text())


def parse(name: str, text: str) -> Patch:
    """Raises PatchError."""
    story, found, diff = text.partition("--- a/")
    lines = diff.splitlines()
    if not found or len(lines) < 3 or lines[1] != f"+++ b/{lines[0]}":
        raise PatchError(f"{name} is no unified diff of one file: '--- a/FILE' and '+++ b/FILE' are expected")
    if not story.strip():
        raise PatchError(f"{name} does not tell which bug it puts back: say so in lines above the diff")
    return Patch(name, story.strip(), lines[0], tuple(_hunks(name, lines[2:])))


def _hunks(name: str, lines: list[str]) -> list[Hunk]:
    starts = [at for at, line in enumerate(lines) if line.startswith("@@")]
    if not starts or starts[0] != 0:
        raise PatchError(f"{name} has no '@@' line behind the names of its file")
    hunks = []
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        body = [line or " " for line in lines[start + 1 : stop]]  # editors take the blank of an empty line
        strange = next((line for line in body if line[0] not in " -+"), None)
        if strange is not None:
            raise PatchError(f"{name}: '{strange}' is no line of a unified diff")
        changed = [line for line in body if line[0] != " "]
        if not changed or any(sum(line[0] == sign for line in changed) > LINES_MAX for sign in "-+"):
            raise PatchError(f"{name} changes {len(changed)} lines in one place; 1 to {LINES_MAX} are allowed")
        old = tuple(line[1:] for line in body if line[0] != "+")
        if not old:
            raise PatchError(f"{name}: a line is added, but nothing says where")
        hunks.append(Hunk(old, tuple(line[1:] for line in body if line[0] != "-")))
    return hunks
