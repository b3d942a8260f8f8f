"""From entries and records of a log to lives of messages, without files and without Spark.

lives.py          messages of one queue and what has become of them; a piece of a run that shares one fate is one life
queue_history.py  the events of a classic or quorum queue, folded; folded_history.py: what that comes to
    quorum_queue.py   a quorum queue, given to the machine that the nodes run
    telling_machine.py  this machine, which tells the lives what it does
    lone_entries.py   what most entries are, taken in one go; lone_flow.py: many of them, while messages flow to a consumer
    classic_queue.py  a classic queue: what its records say of messages, by sequence
    node_processes.py whose the numbers of actors in these records are
stream_log.py     a stream: the machine that the nodes run, and what became of each chunk
    entry_batch.py    entries that follow on one another, as most do: they are taken together
    merged_log.py     one log of all copies of a replicated one, for both
    log_chains.py     which of these copies count, where nodes have different ones
    group_copies.py   what these copies prove together
"""
