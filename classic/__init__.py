"""Classic queues: on one node, durable when it says so, made for everyday work with low latency."""
