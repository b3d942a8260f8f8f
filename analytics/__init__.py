"""What became of each message, answered from the logs of the nodes: see docs/history.md.

    audit/     who declared, deleted or changed what
    fold/      who was given which message and what came of it: the broker's own machines, fed with old logs
    follow/    what happens now
    jobs/      the questions that operators ask, and what the files say beside the folds
    streams/   what streams have, how far readers are behind, and whether all of it is accounted for
    spark/     logs of any size, on Spark

The top of the tree, beside the node: it reads what nodes have written, and nothing of a node imports it.
"""
