"""A queue as the broker sees it, whatever its kind: the contract that all kinds fulfil, and its consumers.

queue_type.py       the contract of every queue
stream_contract.py  what a stream offers beyond it
consumer.py         a subscription: what it may take now, and where deliveries go
shared_limit.py     a limit that the consumers of a channel share; held_back.py what it does where the queue is elsewhere
open_queue.py       a queue that is open on this node, with its record
queue_walk.py       all that are open, gone through while others come and go
queue_deletion.py   deletes one for a client, perhaps only if it is empty or unused
added_headers.py    headers that messages get on their way out
"""
