"""Paths about nodes: how they and the groups on them are, what happened there and is counted, and how one leaves for good."""
