"""node/commands/local_cluster.py: what an operator reads. tests/e2e/test_cluster.py starts it."""

from __future__ import annotations

from node.commands.local_cluster import in_words


def test_how_a_node_ended_is_told_in_words() -> None:
    assert [in_words(code) for code in (0, 74, -9, -64)] == [
        "has stopped with exit code 0",
        "has stopped with exit code 74",
        "was ended by SIGKILL",
        "was ended by SIGRTMAX",
    ]
    assert in_words(-100) == "was ended by signal 100"
