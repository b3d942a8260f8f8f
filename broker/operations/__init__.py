"""Administration: what operators may see and change on a node, the same for each protocol.

An operation checks what its operator needs (operator.py), then reads the catalog and the broker, or changes them by a command.
Fronts translate: a request into the arguments of an operation, its view into JSON or protobuf, its error into a status.
operations.py has them all, by what they are about: resources.py (exchanges, queues, bindings), clients.py, users.py, rights.py,
vhosts.py, policies.py, documents.py (definitions), redrives.py, this_node.py with node_facts.py. entry_words.py
says what the log of the catalog has, in words.
A list that may be long is an iterator, which a front reads in slices; what takes time is a `Pending`.
"""
