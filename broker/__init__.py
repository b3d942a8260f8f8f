"""The broker's words and decisions: what is declared, where a message goes, who may do what, what is confirmed.

Nothing here waits, reads a clock or touches a file: time comes in as an argument, and whatever must become
durable or cross the network is asked of a port. Fronts come in through `broker.session`, kinds of queue stand
behind `broker.queues.queue_type`, and everything declared is in `broker.catalog`.

Read in this order: messages (what travels), session (the door), routing (where it goes), queues (the contract of the three
kinds), messages/confirms and session/deliveries (who is owed an answer), turns (when all of that is passed on), catalog with
its commands (what is declared).

What lies flat is one node's broker as a whole (broker, node_queues, turns with background_work and timers, alarms, limits), and
the words that every folder uses (names, errors, records, actors, pending).
"""
