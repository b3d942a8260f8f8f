"""AMQP 0-9-1, the protocol of RabbitMQ's clients.

server.py       sockets, TLS, time: the only file here that does I/O
connection.py   one connection: login, channels, heartbeats, its end
states.py       its state machine as a table
intake.py       its input: from bytes to frames and runs
backpressure.py what stops reading and delivering, and what starts it again: a table
channel.py      one channel: order, contents, closing; the sink of its session
methods.py      what each method asks of the session
content.py      a message put together frame by frame
sasl.py, replies.py, wheel.py   what the others are made of

How methods, tables and frames are encoded is in wire/amqp.
"""
