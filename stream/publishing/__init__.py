"""What clients of this node publish to a stream, and the offsets that they store, until it is in the log.

    node_publishing.py  taken or refused here, answered later   session.py         gathered into portions, each of them a chunk
    publish_entries.py  what the leader's node proposes for it  offset_stores.py   stored offsets, on their way to the leader

What is lost under one leader is said again to the next, and is in the stream once.
"""
