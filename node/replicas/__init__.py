"""Members of quorum queues as operators and the cluster see them: placement, reconciliation, rebalancing, health."""
