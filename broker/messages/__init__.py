"""What travels: runs of messages, and what is owed to who published them.

message.py       a run, and nothing smaller on the fast path
run_parts.py     a run that is divided, and its receipt with it
confirms.py      which publishes have been answered
expiration.py    the property of that name, checked where a message comes in
route_names.py   exchange and routing key, as logs and nodes have them
browsed.py       messages as somebody saw them who took nothing
stored_bytes.py  bytes that lie in a file, and need not be read to be sent
"""
