"""Consumers of a stream on this node, whether a member is here or chunks come from another node.

    offset_spec.py      where a consumer asks to begin          beginnings.py      consumers that wait to begin
    readers.py          all consumers of one stream             reader.py          one consumer of messages
    reader_figures.py   how far it is                           chunk_subscription.py  one of whole chunks
    far_log.py          chunks of another node's member         serving.py         chunks for readers on other nodes
    far_count.py        how many messages it has
    letters.py          what nodes ask each other               browsing.py        messages that operators look at

A reader sees each committed message from its beginning on, in order; what retention has removed meanwhile is passed over.
"""
