"""Quorum queues: one replicated log per queue, and on each member the same state machine over it.

    commands.py   what an entry of the log says, and its bytes          rules.py     what a queue has to keep to, and its bytes
    machine.py    the core: entries in, results and effects out         effects.py   what the core asks its member to do

The machine decides on every member alike and keeps no bodies: its state says which entry of the log holds a message. The
member on the node of a consumer delivers to it, from its own copy of the log.
"""
