"""AMQP 1.0 messages as bytes: the form in which a stream keeps its messages. Not a protocol of connections.

typed_values.py      the types of AMQP 1.0, decoded and encoded
sections.py          the sections that one message consists of

What is no AMQP 1.0 is `BadAmqp10`, whatever is wrong with it.
"""
