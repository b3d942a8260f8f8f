"""Clients write down what they did and saw; the log of their nodes has to tell the same of each message.

On one node a client does one thing after the other, and knows it all:

notes.py      what clients write down, and what the log has to tell then: plain rules
script.py     what clients do, drawn from a seed: every way in which a message may leave a queue

On three nodes several clients work at once, while nodes are killed:

busy_client.py   what one of them does
sightings.py     what they write down, and how sure they are of it
certainty.py     what the log may tell then; quorum_certainty.py, classic_certainty.py: what clients of each kind can be sure of
three_nodes.py   the cluster, its queues and its kills

told.py       what the logs tell, message by message
__main__.py   `python -m tests.ledger --kind classic|quorum|stream --seeds N [--nodes 3]`

Streams keep their messages, so their clients have less to be sure of, on one node as on three:

stream_clients.py  publishers with and without a name, a reader that stores offsets, and what they write down
stream_told.py     what the log tells, and what it has to tell then
stream_ledger.py   seeds, with nodes that are killed
"""
