"""Streams: a replicated log that is the data, read from any offset and never consumed.

- What was confirmed was fsynced by a majority. Offsets are dense, ascend, and are never given to another message.
- Readers see what is committed, on any member, and take nothing away. Only retention removes, in whole segments.

A stream is a Raft group whose entries are chunks of messages.

    chunk.py          what clients get                              stored_form.py    messages of AMQP 0-9-1 in it
    entries.py        what the log consists of                      machine.py        which chunks count, and where they are
    publishing.py     what a node says to the leader                session.py        the same, until it is answered
    tail.py           where the leader puts the next chunk          leading.py        what only the leader's node does
    member.py         the machine under Raft                        reading.py        where to begin, and what comes there
    letters.py        what nodes ask each other                     beginnings.py     consumers that wait to begin
    queue.py          the stream as clients of this node see it     reader.py         one consumer of it
    driver.py         all of the node's                             rules.py          retention
    reclaiming.py     room for what retention has removed

The log lies in the node's store of groups. Files of each stream are built and not used (docs/decisions/0010):
`segment_file.py`, `log.py`, `log_reading.py`, `log_recovery.py` (what a start makes of the files).
"""
