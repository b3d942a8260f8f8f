"""Streams, as their logs have them: what was published, what retention removed, and how far readers are behind by the offsets
that they have stored. Needs neither Spark nor Java.

    stream_look.py    one pass over a file, for the entries of streams
    stream_rows.py    of all copies of a stream's log one, and what it says

Whoever reads and stores no offset is in no log.
"""
