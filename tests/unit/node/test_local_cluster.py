"""node/commands/local_cluster.py: what is started, and what an operator reads. tests/e2e/test_cluster.py starts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from node.commands.local_cluster import CannotStart, in_words, plan, prepared, table
from node.config import ClusterSection, Config, check
from node.main import with_cluster_options, with_options


def test_the_secret_is_made_once_and_is_nobody_else_s_to_read(tmp_path: Path) -> None:
    path = prepared(tmp_path / "new" / "cluster")
    made = path.read_text()
    assert len(made.strip()) == 64
    assert path.stat().st_mode & 0o077 == 0
    assert prepared(path.parent).read_text() == made
    assert [one.name for one in path.parent.iterdir()] == ["secret"]


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotStart, match="file/cluster: Not a directory"):
        prepared(tmp_path / "file" / "cluster")


def test_all_nodes_know_the_disk_nodes_and_have_ports_of_their_own(tmp_path: Path) -> None:
    nodes = plan(3, 1, tmp_path, 5672, tmp_path / "secret", None)
    assert [node.name for node in nodes] == ["n1", "n2", "n3", "n4"]
    addresses = [address for node in nodes for address in (node.amqp, node.grpc, node.http, node.peer, node.stream)]
    assert len(set(addresses)) == 20
    assert nodes[1].amqp == "127.0.0.1:5673"
    for node in nodes:
        peers = [value for option, value in zip(node.command, node.command[1:], strict=False) if option == "--peers"]
        assert peers == [one.peer for one in nodes[:3]]
        assert ("--ram" in node.command) == (node.name == "n4")


def test_ports_beyond_the_last_one_are_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="--base-port 65300 is too high: 3 nodes need ports up to 65702"):
        plan(3, 0, tmp_path, 65_300, tmp_path / "secret", None)


def test_the_table_says_where_clients_go_and_how_to_look(tmp_path: Path) -> None:
    shown = table(plan(2, 0, Path("var/cluster"), 5672, tmp_path / "secret", None), Path("var/cluster"))
    assert shown.splitlines()[1].split() == [
        "n1",
        "127.0.0.1:5672",
        "127.0.0.1:5772",
        "127.0.0.1:5872",
        "127.0.0.1:5972",
        "127.0.0.1:6072",
    ]
    assert "leveretctl --node 127.0.0.1:5772 cluster status" in shown


def test_options_of_the_command_line_win_over_the_file(tmp_path: Path) -> None:
    before = Config(cluster=ClusterSection(secret="x" * 16, peers=("a:1",), zone="old"))
    config = with_cluster_options(before, "0.0.0.0:7", "me:7", None, ["b:1", "c:1"], True, tmp_path / "secret", None)
    config = with_options(config, "n9", None, None)
    check(config)
    assert config.cluster == ClusterSection(
        secret_file=str(tmp_path / "secret"), peers=("b:1", "c:1"), zone="old", ram=True, advertise="me:7"
    )
    assert (config.listen.peer, config.node.name) == ("0.0.0.0:7", "n9")


def test_how_a_node_ended_is_told_in_words() -> None:
    assert [in_words(code) for code in (0, 74, -9, -64)] == [
        "has stopped with exit code 0",
        "has stopped with exit code 74",
        "was ended by SIGKILL",
        "was ended by SIGRTMAX",
    ]
    assert in_words(-100) == "was ended by signal 100"
