"""Consensus: one log, agreed on by the members of a group; thousands of groups on a node.

    core/   what one member decides. Read messages.py (the words), ready.py (what the core answers), core.py (tick, step,
            propose, ready), then what it decides with: state.py and log.py; election.py; follower.py with snapshot_transfer.py;
            leader.py with leadership.py, feeding.py, progress.py, succession.py and reads.py; membership.py and majority.py
    store/  what a node keeps of its groups: wal_log_store.py is one group's part of the node's log, node_log.py all of them

core/log_store.py, store/member_store.py, machine.py, transport.py and loop.py are the ports. driver.py performs what one core
answers, and requests.py answers who asked for something; groups.py does so for all groups of a node, with group_deadlines.py,
failure_detector.py and stopped_members.py.
"""
