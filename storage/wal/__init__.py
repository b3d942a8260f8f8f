"""The node's one log, which every kind of queue writes to: one fsync serves all who wait for it.

    log_core.py      records join the gathering commit, a mark seals it      group_commit.py   which ticket is durable
    writer.py        what writes commits: the loop, or a thread              thread.py         the log's own thread
    commit_thread.py commits written without the interpreter lock            write_thread.py   the thread that does
    files.py         the files it is written to                              new_file.py       the next one, made ready
    facts.py         what a log knows of itself                              log_users.py      who still needs which file
    file_reader.py   records of a file, and where they end                   replay.py         what a start makes of them
    fsync_times.py   how long the disk takes, and which thread waits for it

Read `log_core.py` first, then `writer.py`, then `replay.py`.
"""
