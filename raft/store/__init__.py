"""What a node keeps of its groups, and how: in the node's log, segments and snapshots."""
