"""A client of AMQP 0-9-1 without I/O: bytes in, events out, bytes to send.

uri            where a broker is, and how to log in
client         one connection: handshake, channels, heartbeat, what the broker says
events         what comes out of it
opening        the handshake
contents       messages that do not arrive as one run
conversation   a client with its socket, its timers, and what is declared first
"""
