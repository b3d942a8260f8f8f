"""Sockets of clients, whatever they speak: who is let in, what comes and goes in a turn, who is at the other end.

For all fronts, and for the links of other nodes:

gate.py, listener.py, backlogs.py   who is let in, and who waits in which backlog
wheel.py                            many coarse timers

For protocols whose connections are without I/O, AMQP and the stream protocol:

client_protocol.py                  what sockets have to know of a protocol
client_server.py                    listeners of one protocol: beginning, draining, stopping
client_socket.py, socket_output.py  one socket, and what it owes; socket_peer.py who is at its other end
input_share.py                      how long one socket's input may take in a turn
peer.py, heartbeat.py, strangers.py, plain_login.py   what such connections know of their sockets, and have in common
"""
