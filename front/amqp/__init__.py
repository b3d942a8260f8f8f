"""AMQP 0-9-1, the protocol of RabbitMQ's clients.

server.py       AMQP for the server of sockets (front/sockets/client_server.py)
connection.py   one connection: login, channels, heartbeats, its end
states.py       its state machine as a table
intake.py       its input: from bytes to frames and runs
backpressure.py what stops reading and delivering, and what starts it again: a table
channel.py      one channel: order, contents, closing; the sink of its session
methods.py      what each method asks of the session
content.py      a message put together frame by frame
handshake.py    from start-ok to open-ok: who the client is, what both sides agree on
terms.py        what a connection is offered: limits, and how the server presents itself
sasl.py, replies.py   what the others are made of; heartbeats and the wheel of timers are in front/

How methods, tables and frames are encoded is in wire/amqp.
"""
