"""Bytes and fsync: what a node promises about its files.

- What was reported durable survives kill -9 and power loss. `durable` always means: fsynced, with its directory entry.
- What was not reported durable may be there after a crash, in part or whole, but only as it was written: a record is
  read back with the bytes that were appended, at its place in the order, or not at all.
- Damage is told apart from a torn tail, and is reported with file, offset and length. Nothing damaged is deleted here.
- After a write or an fsync has failed, the log writes nothing more. The node says so and stops promising.

A node opens its log like this:

    facts = load_or_create(disk, random.random_bytes(LOG_ID_BYTES))                    # wal/facts.py
    replay = Replay(disk, facts, salvage=True)                                         # wal/replay.py
    for chunk in replay.chunks(): ...                                                  # each owner takes its records
    core = LogCore(facts.log_id, replay.finish(), config.log.file_bytes_max)           # wal/log_core.py
    log = LogWriter(core, disk, loop, facts, on_failed=process.stop)                   # wal/writer.py

Read in this order: `disk.py` (the port), `record.py` (the bytes), `wal/log_core.py` (the log's core), `wal/writer.py` (what
writes it), `wal/replay.py` (what a crash leaves, and what we make of it). `names.py` has every file name.
"""
