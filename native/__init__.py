"""Pure functions over buffers, and one thread, each written twice.

`x.py` is the definition: it documents, it is what the tests mean, and it runs where nothing could be compiled.
`_x.pyx` is its compiled twin, and `native.x` hands out whichever is there:

    frame_split    AMQP bytes -> runs of publishes, ranges of acks, other frames
    stream_publish bytes of stream clients -> runs of what they publish
                   bytes from a broker -> runs of deliveries, ranges of confirms (delivery_split, in the same twin)
                   messages of a content -> runs that a queue takes whole (alike, in the same twin)
    deliver        messages of a content -> the frames that deliver or publish them
    offsets        messages of a stream -> the same with their offsets
    amqp10_items   messages of a content -> items of a stream's chunk, and back
    content        the bytes in which a run's messages travel and rest
    crc32c         the checksum of everything that rests
    crc32          the checksum that clients of streams expect
    record_scan    log bytes -> whole records, up to the first that is not
    sequence_set   a set of numbers kept as ranges
    index_ranges   ascending columns of numbers -> their union as ranges
    entry_scan     entries of quorum queues that publish a run or acknowledge a range -> what they say
    log_columns    a piece of a log -> its records, publishes and settlements as columns
                   pieces of a log -> what happened to queues, by buckets of them (event_buckets, in the same twin)
    log_tally      records -> what a file of the log holds, counted
    message_columns  contents -> their messages and what their properties say, as columns
    write_thread   no function: a thread that writes and syncs, defined in storage/wal/write_thread.py as it does I/O

The environment variable LEVERET_KERNELS chooses: "plain", "compiled" (then a missing twin is an error), or "auto".
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType

KERNELS = (
    "frame_split", "stream_publish", "deliver", "offsets", "amqp10_items", "content", "crc32c", "crc32", "record_scan",
    "sequence_set", "index_ranges", "entry_scan", "log_columns", "log_tally", "message_columns", "write_thread",
)  # fmt: skip

_WANTED = os.environ.get("LEVERET_KERNELS", "auto") or "auto"
if _WANTED not in ("auto", "compiled", "plain"):
    raise ValueError(f"LEVERET_KERNELS is {_WANTED!r}: use auto, compiled or plain")


def compiled_twin(kernel: str) -> ModuleType | None:
    """The compiled module of a kernel, or None where the plain definition is to be used."""
    if _WANTED == "plain":
        return None
    try:
        return importlib.import_module(f"native._{kernel}")
    except ImportError as error:
        if _WANTED == "compiled":
            raise ImportError(
                f"LEVERET_KERNELS is compiled, but native._{kernel} does not load ({error}): run `make setup`"
            ) from error
        return None


def kernels() -> dict[str, str]:
    """For each kernel "compiled" or "plain", as this process uses it."""
    return {kernel: "plain" if compiled_twin(kernel) is None else "compiled" for kernel in KERNELS}


def backend() -> str:
    """ "compiled" if every kernel is, else "plain": one slow kernel is enough to make a node slow."""
    return "compiled" if set(kernels().values()) == {"compiled"} else "plain"
