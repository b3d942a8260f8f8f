"""Where clients come in: addresses and certificates, the servers of each protocol, and doors that are shut for maintenance."""
