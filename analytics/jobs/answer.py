"""What a command says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EXIT_HOLDS = 0
EXIT_USAGE = 64  # it could not be answered
EXIT_MISSING = 65  # messages that were promised are nowhere
EXIT_UNKNOWN = 75  # the logs that were read do not tell

ROWS_SHOWN = 1_000

Column = tuple[str, str]  # name and type, as Spark writes types


@dataclass(slots=True)
class JobAnswer:
    """Rows with the types of their columns; `code` is what they alone make the command end with, `text` is shown to people in
    place of a table of them, and there are more rows if these are cut."""

    columns: list[Column]
    rows: list[dict[str, Any]]
    code: int = EXIT_HOLDS
    text: list[str] | None = None
    is_cut: bool = False


def answer_of(table: DataFrame, limit: int = ROWS_SHOWN) -> JobAnswer:
    """The first rows of a table. Raises ValueError where columns have one name: of these a row would have one value."""
    columns = [(field.name, field.dataType.simpleString()) for field in table.schema.fields]
    names = [name for name, _ in columns]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"several columns are called {twice!r}: give each a name of its own with AS")
    rows = [row.asDict(recursive=True) for row in table.limit(limit + 1).collect()]
    return JobAnswer(columns, rows[:limit], is_cut=len(rows) > limit)


def worst(codes: Sequence[int]) -> int:
    """Of several exits the one to end with: what is missing is missing, whatever else is unknown or could not be answered."""
    for code in (EXIT_MISSING, EXIT_USAGE, EXIT_UNKNOWN):
        if code in codes:
            return code
    return EXIT_HOLDS
