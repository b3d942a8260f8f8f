"""Faults on whole clusters while clients work, and the verdict of tests/histories on what these saw: `python -m tests.chaos`.

A scenario (scenarios.py) is data: what the cluster looks like, and which faults hit it in what order. A backend (backend.py)
is a kind of cluster that faults can be done to. The workload (workload.py) is the same for all. See docs/chaos.md.
"""
