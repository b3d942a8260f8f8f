"""The RabbitMQ stream protocol: connections of stream clients, without I/O.

session_port.py        what a connection asks of the broker, and what the broker tells it
phases.py              from the first frame to the end, and what may come when
connection.py          bytes in, bytes out: frames, the login, closing, time
publishers.py          publishers of a connection: runs in, confirms out
subscriptions.py       subscriptions of a connection: credit in, chunks out; who of a group is active
stream_requests.py     requests that leave nothing behind on the connection
stream_flow.py         what stops reading and sending, and what starts it again
response_codes.py      which error is which code
stream_terms.py        limits, and how the server presents itself
deadlines.py           several deadlines with one timer

Nothing listens yet: a server for it needs streams in the broker, which fulfil the port.
"""
