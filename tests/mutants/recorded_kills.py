"""Which test killed which mutant when last recorded: recorded_kills.json for the runner, docs/mutants.md for readers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.mutants.killers import Kill
from tests.mutants.patches import PatchError, all_patches

KILLS = Path(__file__).with_suffix(".json")  # by mutant: the test's name as pytest has it
CRASHES_SHOWN = 4
BEGIN, END = "<!-- kills -->", "<!-- end of kills -->"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one mutant."""

    mutant: str
    title: str
    kill: Kill | None
    crashes: tuple[str, ...]
    seconds: float
    cpu_s: float  # of the killers: this does not depend on what else the machine does

    def as_dict(self) -> dict[str, object]:
        kill = self.kill._asdict() if self.kill is not None else None
        return {**asdict(self), "kill": kill}

    def line(self) -> str:
        if self.kill is not None:
            how, why = self.kill.test, [self.kill.why]
        else:
            how = f"ONLY CRASHED, in {len(self.crashes)} tests" if self.crashes else "SURVIVED"
            why = list(self.crashes[:CRASHES_SHOWN])
        head = f"{self.mutant:44} {self.seconds:6.1f} s, {self.cpu_s:5.1f} s of CPU  "
        return "\n".join([head + how, *(" " * len(head) + one[:200] for one in why)])


def recorded_tests() -> dict[str, str]:
    """By mutant: the test that killed it."""
    found: dict[str, str] = json.loads(KILLS.read_text())
    return found


def record(page: Path, results: Sequence[Result]) -> None:
    """In the table of a Markdown file and for the runner. What was not run stays. Raises PatchError."""
    before, _, rest = page.read_text().partition(BEGIN)
    rows, found, after = rest.partition(END)
    if not found:
        raise PatchError(f"{page} has no place for the table: '{BEGIN}' and '{END}' are expected")
    KILLS.write_text(json.dumps(kills(recorded_tests(), results), indent=2, ensure_ascii=False) + "\n")
    page.write_text(f"{before}{BEGIN}\n{table(rows.splitlines(), results)}\n{END}{after}")


def kills(known: Mapping[str, str], results: Sequence[Result]) -> dict[str, str]:
    """What was known, with these results in their places."""
    killed = {**known, **{one.mutant: one.kill.test for one in results if one.kill}}
    for survivor in (one.mutant for one in results if one.kill is None):
        killed.pop(survivor, None)
    return {patch.name: killed[patch.name] for patch in all_patches() if patch.name in killed}


def table(rows: Sequence[str], results: Sequence[Result]) -> str:
    """The rows that were there, with these results in their places."""
    by_name = {row.split("`")[1]: row for row in rows if row.startswith("| `")}
    for one in results:
        killer = readable(one.kill.test) if one.kill else "**nobody**"
        by_name[one.mutant] = f"| `{one.mutant}` | {one.title} | {killer} | {one.cpu_s:.1f} |"
    known = {patch.name for patch in all_patches()}
    kept = [by_name[name] for name in sorted(known.intersection(by_name))]
    return "\n".join(["| mutant | the bug | killed by | CPU seconds |", "|---|---|---|---|", *kept])


def readable(test: str) -> str:
    """A test's name as the table has it."""
    file, _, name = test.removeprefix("tests/").partition("::")
    return f"`{file}` {name.removeprefix('test_').replace('::test_', ' ').replace('_', ' ')}"
