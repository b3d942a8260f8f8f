"""From entries and records of a log to lives of messages, without files and without Spark.

lives.py          messages of one queue and what has become of them; a piece of a run that shares one fate is one life
quorum_queue.py   a quorum queue: the machine that the nodes run, which tells the lives what it does
    classic_queue.py  a classic queue: what its records say of messages, by sequence
"""
