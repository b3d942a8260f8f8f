"""What `leveret doctor` shows of files: their formats are known to the folders that write them, this asks them all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from storage import doctor


def examine(paths: Sequence[Path], *, dump: bool) -> Iterator[dict[str, Any]]:
    """Rows about these files and directories; a row with `finding` says what is wrong."""
    for path in paths:
        if dump and path.is_file():
            for row in doctor.dump(str(path)):
                yield {"file": str(path), **row}
        for finding in doctor.verify(str(path)):
            yield {"file": str(path), "finding": str(finding)}
