"""Links: what carries messages between this cluster and another broker, or between queues of one.

    amqp/              a client of AMQP 0-9-1, as a state machine without I/O
    federation/        exchanges and queues that get messages from another broker
    shovel/            messages of one source to one destination, until they are confirmed there
    parameter_checks   what parameters of links have in common
    backoff            when a link that ended begins again
    link_claims        which links this node runs
    local_conversation a session of this node's broker, where a URI means this cluster
    world              what a link needs of the world: time, connections, chance

Cores decide; `sockets` is the only module that does I/O.
"""
