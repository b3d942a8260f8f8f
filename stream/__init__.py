"""Streams: a replicated log that is the data, read from any offset and never consumed.

- What was confirmed was fsynced by a majority. Offsets are dense, ascend, and are never given to another message.
- Readers see what is committed, on any member, and take nothing away. Only retention removes, in whole segments.

A stream is a Raft group whose entries are chunks of messages. Its log lies in the node's store of groups.

    driver.py             all of the node's
    queue.py              the stream as clients of this node see it
    leader_questions.py   what its clients want to know of the leader
    stream_places.py      which nodes lead and have streams, for clients who connect to these

    publishing/           what clients of this node publish and store, until the leader has it in the log
    reading/              consumers, on a node with a member or without
    group/                the machine, the member, and what the leader decides
    chunks/               bytes: what the log consists of, and what nodes say to the leader

Rooms import from those below them; publishing and reading do not know each other.
"""
