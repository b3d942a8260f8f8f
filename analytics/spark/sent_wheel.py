"""A wheel of Leveret for workers that have none: Spark sends it along and unpacks it where they work.

Not with Spark's `--py-files`: Python would import from the zip as it is, which cannot be done with compiled kernels.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from zipfile import BadZipFile, ZipFile

UNPACKED = "leveret"  # a directory below that in which a worker works
NEEDED = "analytics/__init__.py"


def sent(wheel: Path, scratch: Path) -> dict[str, str]:
    """Settings for a session, with which `scratch` is needed as long as it lasts. Raises OSError and ValueError."""
    unpacked, archive = scratch / UNPACKED, scratch / f"{UNPACKED}.zip"  # Spark unpacks what is called so
    try:
        with ZipFile(wheel) as files:
            files.getinfo(NEEDED)
            files.extractall(unpacked)
    except (BadZipFile, KeyError) as error:
        raise ValueError(f"{wheel} is no wheel of Leveret: {error}") from error
    shutil.copyfile(wheel, archive)
    # The Python of the workers runs here as well, to say which tasks there are, and may have nothing of Leveret either.
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(unpacked) if before is None else f"{unpacked}{os.pathsep}{before}"
    return {"spark.archives": f"{archive}#{UNPACKED}", "spark.executorEnv.PYTHONPATH": UNPACKED}
