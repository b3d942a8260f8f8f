"""The lives of messages for whoever asks a running node, and messages for replays: read by processes beside the nodes.

    life_process.py   the log of this node, read by a process of its own: one at a time
    cluster_lives.py  all nodes are asked, and once more for what a dead letter was and became elsewhere
    merged_lives.py   what several nodes say of one message
    replay_process.py the same log for replays: messages that left a queue, piece by piece
    node_lives.py     puts these together, for node/assemble.py

A node imports nothing of what reads logs (analytics/): it starts a program, as an operator would.
"""
