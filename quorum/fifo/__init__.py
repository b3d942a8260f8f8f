"""The machine of a quorum queue: the same on every member."""
