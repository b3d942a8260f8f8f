"""A queue at a past second, without Spark: of a long history only the files are read that can tell of that second.

    file_contents.py  which queues a file tells of, and since when: from the summary beside it, where there is one
    log_timeline.py   the files before and after that second, and which of them tell of a queue
    past_events.py    what one file tells of one queue
    past_fold.py      what folds of all kinds of queues have in common
    past_classic.py   a classic queue: from the newest checkpoint of before that second on
    checkpoints.py    what checkpoints of classic queues say, and where they are
    past_group.py     a quorum queue: from the newest snapshot of before that second on
    queue_at.py       which queues and files are meant, and the answer

A file is left out if it begins after the second, tells of other queues only, or is older than the snapshot that the fold of
a quorum queue, or the checkpoint that that of a classic queue, begins with. A stream has no snapshots that have times, and
of a node whose `history.level` was not full a classic queue has no checkpoints: of these every file counts.
"""
