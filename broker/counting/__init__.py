"""What is counted of messages and clients.

counters.py       of each session: what it published, was given and settled
flows.py          from which exchanges into which queues a session publishes
ended_traffic.py  of clients that have gone: sums over a node never fall
message_sizes.py  how large messages are
"""
