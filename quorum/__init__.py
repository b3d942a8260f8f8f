"""Quorum queues: one replicated log per queue, and on each member the same state machine over it.

    fifo/         the machine, the same on every member: the commands of the log, and what each does to the queue

    queue.py      the queue as clients of this node see it              session.py   what they say, until it is answered
    member.py     the machine under Raft, and its effects               entries.py   what the leader proposes, and its results
    driver.py     all of the node's                                     leading.py   what only the leader's node does

The machine decides on every member alike and keeps no bodies: its state says which entry of the log holds a message. The
member on the node of a consumer delivers to it, from its own copy of the log.
What any kind of replicated queue needs is in replicated/.
"""
