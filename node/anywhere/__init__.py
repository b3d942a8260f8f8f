"""Classic queues used through any node: the home serves its queues to other nodes, and these forward to the home."""
