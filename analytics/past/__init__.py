"""A queue at a past second, without Spark: of a long history only the files are read that can tell of that second.

    file_contents.py  which queues a file tells of, and since when: from the summary beside it, where there is one
    log_timeline.py   the files before and after that second, and which of them tell of a queue
    past_events.py    what one file tells of one queue
    past_fold.py      a classic queue at that second
    past_group.py     a quorum queue: from the newest snapshot of before that second on
    queue_at.py       which queues and files are meant, and the answer

A file is left out if it begins after the second, tells of other queues only, or is older than the snapshot that the fold of
a quorum queue begins with. A classic queue has no snapshots, and a stream none that has times: of these every file counts.
"""
