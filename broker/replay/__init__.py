"""Replay: messages that left a queue are published again, as the log has them. Their queue is not touched.

    order.py     which messages, and where to
    logged.py    what the log says of each, and how it is marked when it is published again
    replay.py    publishes, some at a time, and knows up to where all was confirmed

Who reads the log is a port of the fronts (front/node_ports.py). A replay that ended anywhere goes on behind the place that it
tells; what was published and not confirmed then may come twice.
"""
