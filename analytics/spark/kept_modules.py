"""What a worker of Spark has imported, which stays for as long as it runs.

Behind each task Spark has its worker look for garbage, through all objects there are: 12 to 19 ms with PyArrow and what this
package imports, which the next task waits for. Tasks are many, so what stays is set aside before the first one begins.
"""

from __future__ import annotations

import gc
import os
from functools import cache

RUNTIME, WORKER = "SPARK_PYTHON_RUNTIME", "PYTHON_WORKER"  # as Spark tells a process that it is a worker


@cache
def keep_modules() -> None:
    """To be called by what tasks run; in any other process nothing is set aside."""
    if os.environ.get(RUNTIME) == WORKER:
        gc.collect()
        gc.freeze()
