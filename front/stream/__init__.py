"""The RabbitMQ stream protocol: connections of stream clients, without I/O but for server.py.

server.py              the stream protocol for the server of sockets (front/sockets/client_server.py)
session_port.py        what a connection asks of the broker, and what the broker tells it
phases.py              from the first frame to the end, and what may come when
connection.py          bytes in, bytes out: frames, the login, closing, time
stream_intake.py       from bytes to frames and runs, as much as fits a turn
publishers.py          publishers of a connection: runs in, confirms out
subscriptions.py       subscriptions of a connection: credit in, chunks out; who of a group is active
stream_requests.py     requests that leave nothing behind on the connection
stream_flow.py         what stops reading and sending, and what starts it again
response_codes.py      which error is which code
stream_terms.py        limits, and how the server presents itself
deadlines.py           several deadlines with one timer
"""
