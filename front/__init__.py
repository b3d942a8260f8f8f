"""The protocols that clients speak. A front turns its protocol into calls of broker.session and back, seeing nothing below.

Shared by those whose connections are without I/O, AMQP and the stream protocol:

client_protocol.py   what sockets have to know of a protocol
client_server.py     listeners of one protocol: beginning, draining, stopping
client_socket.py     one socket; socket_peer.py who is at its other end
input_share.py       how long one socket's input may take in a turn

Shared by all: gate.py and listener.py (who is let in), wheel.py (timers), heartbeat.py, peer.py, plain_login.py.
"""
