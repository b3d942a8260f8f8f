"""Streams: a replicated log that is the data, read from any offset and never consumed.

- What was confirmed was fsynced by a majority. Offsets are dense, ascend, and are never given to another message.
- Readers see what is committed, on any member, and take nothing away. Only retention removes, in whole segments.

A stream is a Raft group whose entries are chunks of messages, and whose log is kept as the files that readers read. Read in
this order: `chunk.py` (what clients get), `entries.py` (what the log consists of), `segment_file.py` (its files), `log.py`,
`log_reading.py`, `log_recovery.py` (what a start makes of the files).
"""
