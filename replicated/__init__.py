"""What any kind of queue needs whose log is a Raft group. A kind of queue adds its machine, its commands and its clients.

ports.py          what is asked of the node: groups, store, calls, timers
sole_replica.py   restart from the only, damaged replica         roll_call.py       which voters respond
queue_time.py     the clock of a queue                           reply_timeout.py   a reply with a timeout
"""
