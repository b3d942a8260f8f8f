"""A node's world without the world: time that waits, a disk that forgets. Each file says what it may do to a node."""
