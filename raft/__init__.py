"""Consensus: one log, agreed on by the members of a group; thousands of groups on a node.

Read in this order: messages.py (the words), ready.py (what the core answers), core.py (tick, step, propose, ready), then
what it decides with: state.py and log.py; election.py; follower.py with snapshot_intake.py; leader.py with leadership.py,
feeding.py, progress.py, succession.py and reads.py; membership.py and majority.py. log_store.py and machine.py are the ports;
wal_log_store.py stores on the node's log; groups.py and driver.py perform what the cores answer.
"""
