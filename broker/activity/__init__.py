"""What happened on a node lately, in bounded memory, for those who look on: events here, changes in broker/login/audit.py."""
