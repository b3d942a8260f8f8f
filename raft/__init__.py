"""Consensus: one log, agreed on by the members of a group; thousands of groups on a node.

Read in this order: messages.py (the words), ready.py (what the core answers), core.py (tick, step, propose, ready), then
what it is made of: state.py with log.py, progress.py, membership.py, majority.py and reads.py. log_store.py and machine.py
are the ports; wal_log_store.py stores on the node's log; groups.py and driver.py perform what the cores answer.
"""
