"""Streams, as their logs have them: what was published, what retention removed, how far readers are behind, by the offsets that
they have stored and by what nodes have noted of consumers, and whether all is accounted for. Needs neither Spark nor Java.

    stream_look.py    one pass over a file, for the entries of streams
    stream_copies.py  all that nodes have of their streams: log, segments, snapshots
    stream_rows.py    what was published to each, and who is how far
    stream_proof.py   whether every message is accounted for

Whoever reads and stores no offset is in no log unless its `history.level` is full.
"""
