"""What any kind of queue needs whose log is a Raft group.

    queue.py            what a queue is here                            ports.py            what it has of its node
    member.py           the life of a member, and its digests           local_members.py    the members of this node
    leader_route.py     to the leader, on whichever node                letters.py          what nodes say to each other
    leader_duties.py    what the leader's node does for any group       busy_queues.py      what is to be done now and then
    administration.py   members added and removed by operators          departures.py       when an unnamed member leaves
    comparison.py       whether members are in the same state           verdicts.py         when a member obeys such a finding
    remote_serving.py   a queue in use on a node without a member       sole_replica.py     restart from the only, damaged one
    roll_call.py        which voters respond                            reply_timeout.py    a reply with a timeout
    queue_time.py       the clock of a queue                            peer_letters.py     who answers, after which check
    portions.py         what a node says to a group, until answered     kinds.py            the queues of all kinds
    entry_cache.py      entries that were applied or read lately

A kind of queue adds its machine, the commands in its log and how these are checked, the letters that only it has, and what its
clients see.
"""
