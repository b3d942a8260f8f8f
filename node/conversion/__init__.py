"""Classic queues that become quorum queues in place: copied while they work, then fenced for a moment, then replaced."""
