"""The machine of a quorum queue: the same on every member.

    commands.py    what an entry of the log says, and its bytes         rules.py       what it has to keep to, and its bytes
    machine.py     the core: entries in, results and effects out        effects.py     what the core asks its member to do
    versions.py    which rules are in force since which version         snapshot.py    the state as bytes
    queue_state.py all that is decided by                               inspection.py  looking at it

    movement.py    where messages go            with ready.py, returned.py, delayed.py, held_dead.py, returning.py
    machine_clients.py  who says what           with consumers.py, checked_out.py, sessions.py, producers.py
    deadlines.py   what is done because it is time

A new command has bytes in commands.py, a rule in the machine, a version from which on it counts, a check before it is proposed
(quorum/proposals.py), and a twin in tests/unit/quorum/dumb_queue.py.
"""
