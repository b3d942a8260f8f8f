"""Clients of the stream protocol, as the broker sees them. No sockets, no frames: front/stream/ has these.

client_terms.py        what a client is told and asks for, in values; StreamSink, where it is told
stream_clients.py      the clients of this node, and what they share
stream_client.py       one client: what it publishes, reads and asks
stream_publisher.py    what it publishes under one number, until it is answered
client_reader.py       what it reads under one number, with the credit that it gives
stream_access.py       streams by name, for a user who may use them
stream_directory.py    creates, deletes and locates streams
super_streams.py       exchanges that divide messages among partitions
many_requests.py       many declarations with one answer
consumer_groups.py     which consumer of a group is active, a pure function
node_groups.py         the part of the groups that this node has
group_coordinator.py   decides for the groups of streams that are led from this node
"""
