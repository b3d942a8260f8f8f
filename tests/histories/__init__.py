"""What clients of a broker did and saw, and whether the broker kept its promises: pure, over a recorded history.

Real clusters under faults (tests/chaos) and simulated ones write the same records (records.py), say what each queue promises
(rules.py), and have them judged (judge.py). Names that are declared and deleted meanwhile are judged as registers (names.py).
"""
