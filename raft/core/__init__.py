"""One member's decisions, without I/O: elections, the log, memberships, snapshots."""
