"""AMQP 1.0 messages as bytes: the form in which a stream keeps its messages. Not a protocol of connections.

typed_values.py      the types of AMQP 1.0, decoded and encoded
sections.py          the sections that one message consists of
to_amqp10.py         a message of AMQP 0-9-1 as sections
from_amqp10.py       sections as a message of AMQP 0-9-1
stream_messages.py   runs of messages as items of a stream's chunk, and back
table_conversion.py  values of field tables as typed values, and back
deaths.py            the history of a message that has died, in both forms
annotation_names.py  annotations that hold what only AMQP 0-9-1 knows

What is no AMQP 1.0 is `BadAmqp10`, whatever is wrong with it.
"""
