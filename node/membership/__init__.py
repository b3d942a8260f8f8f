"""Which nodes belong to the cluster, and which of them this one is: first boot, discovery, joining and leaving. What a
node keeps of itself is in node/identity.py."""
