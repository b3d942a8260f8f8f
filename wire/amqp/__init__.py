"""AMQP 0-9-1 as bytes. Cutting what a client sent into runs and frames is `native/frame_split.py`.

tables.py            field tables and property lists
argument_types.py    the types of method arguments
spec.py              the methods and their arguments as one table, decoded and encoded
frame.py             frames as they are sent
"""
