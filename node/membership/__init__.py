"""Which nodes belong to the cluster, and which of them this one is: first boot, discovery, identity, joining and leaving."""
