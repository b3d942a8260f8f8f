"""From entries and records of a log to lives of messages, without files and without Spark.

lives.py          messages of one queue and what has become of them; a piece of a run that shares one fate is one life
queue_history.py  the events of a classic or quorum queue, folded; folded_history.py: what that comes to
    quorum_queue.py   a quorum queue: the machine that the nodes run, which tells the lives what it does
    classic_queue.py  a classic queue: what its records say of messages, by sequence
stream_log.py     a stream: the machine that the nodes run, and what became of each chunk
    merged_log.py     one log of all copies of a replicated one, for both
    group_copies.py   what these copies prove together
"""
