"""The group of a stream on one node: what every member applies and can read, and what the leader decides.

    machine.py          which chunks count, and where they are  member.py          the machine under Raft
    stream_state.py     where the stream is behind an entry     chunk_reading.py   chunks of its log, whole or taken apart
    chunk_places.py     where chunks lie, sparsely              replica_log.py     the member's log, for readers
    reclaiming.py       room for what retention has removed     place_finder.py    where a reader begins
    leading.py          what only the leader's node does        tail.py            where the leader puts the next chunk
    rules.py            retention                               dedup.py           what named publishers have said before

Members decide by the log alone, so they agree; clients and their queue are unknown here.
"""
