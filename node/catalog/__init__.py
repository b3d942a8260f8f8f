"""The catalog of the cluster on this node: the metadata group, what it keeps on disk, and how a node without one gets it."""
