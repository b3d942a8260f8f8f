"""Clients write down what they did and saw; the log of their node has to tell the same of each message.

notes.py      what clients write down, and what the log has to tell then: plain rules
script.py     what clients do, drawn from a seed: every way in which a message may leave a queue
told.py       what the logs tell, message by message
__main__.py   `python -m tests.ledger --kind classic|quorum --seeds N`
"""
