"""Historic bugs of replicated logs, put back one at a time, each of which a test must notice.

A *mutant* is the tree with one patch of a line or two. `patches.py` reads and applies them, `killers.py` names the tests that
are asked, cheapest first, `witness.py` tells a failed assertion from a mere crash. `python -m tests.mutants` runs them.
"""
