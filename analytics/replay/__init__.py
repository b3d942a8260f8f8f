"""Messages that left a queue, with their contents, for a node that publishes them again: broker/replay/.

    choice.py            which messages: how they left, when, by whom, and from which place on
    chosen_runs.py       a queue's log folded, and what of it is chosen
    logged_contents.py   where the contents of what is chosen lie, and reading them
    log_reader.py        the process beside a node that does all this and says it piece by piece

What is told is durable and committed: what the log does not know to be so is counted, and left out.
"""
