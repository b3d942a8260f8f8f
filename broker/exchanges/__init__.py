"""The kinds of exchange: what is bound, and what a message matches.

exchange.py has the kinds by name, and is where another one begins; bindings.py the bindings of one exchange in the shape that
its kind asks for: by key, as a tree of words (topic_tree.py), as conditions (headers_bindings.py), as destinations of which one
is chosen (hash_exchanges.py), as the way to another cluster (federation_upstream.py). recent_history.py is what one kind
remembers. What a route may be remembered for is decided in broker/routing/targets.py.
"""
