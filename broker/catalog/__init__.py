"""What is declared: the catalog, the commands that change it (commands/), and the same as a document (definitions/).

catalog.py        everything, as it is after the commands applied so far; made of parts/
carrying_out.py   what becomes of an entry of the log
catalog_state.py  a whole catalog as bytes
catalog_draft.py  one to try commands in
arguments.py      of queues, exchanges and consumers: which there are, and what they may be
policy.py         what holds for a queue; permissions.py who may do what, by patterns of names
"""
