"""Protocols as bytes: how values, methods and frames are read from a buffer and written into one.

Everything here is a pure function over bytes that somebody else received or will send. Nothing knows a connection, a queue or
a session, so the broker, the fronts and whoever speaks these protocols as a client share one codec. What cannot be read is a
ValueError of the module that reads it; a front turns it into a reply of its protocol, `broker.errors` into one of its own.

    amqp/                AMQP 0-9-1: field tables, property lists, methods, frames
    amqp10/              AMQP 1.0: typed values, and the sections of a message
    stream/              the RabbitMQ stream protocol: commands and frames, messages of a Publish frame
    proxy_protocol.py    the header that a load balancer puts before a connection
"""
