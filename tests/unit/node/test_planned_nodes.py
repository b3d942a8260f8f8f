"""node/commands/planned_nodes.py: what `leveret cluster` starts, and what an operator reads."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from node.commands.planned_nodes import CannotStart, HostMachine, PlannedNode, plan, prepared, table

FOUNDERS = ("10.0.0.1:5972", "10.0.0.2:5972")


def given(node: PlannedNode, option: str) -> list[str]:
    return [value for name, value in pairwise(node.command) if name == option]


def machine_of_two(host: str, secret: Path) -> HostMachine:
    return HostMachine(2, 1, Path("/data"), 5672, host, "east-", "east", FOUNDERS, secret)


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
    nodes = plan(HostMachine(3, 1, tmp_path, 5672), tmp_path / "secret")
    assert [node.name for node in nodes] == ["n1", "n2", "n3", "n4"]
    addresses = [address for node in nodes for address in (node.amqp, node.grpc, node.http, node.peer, node.stream)]
    assert len(set(addresses)) == 20
    assert nodes[1].amqp == "127.0.0.1:5673"
    for node in nodes:
        assert given(node, "--peers") == [one.peer for one in nodes[:3]]
        assert given(node, "--zone") == [node.name]
        assert ("--ram" in node.command) == (node.name == "n4")


def test_ports_beyond_the_last_one_are_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="--base-port 65300 is too high: 3 nodes need ports up to 65702"):
        plan(HostMachine(3, 0, tmp_path, 65_300), tmp_path / "secret")


def test_the_table_says_where_clients_go_and_how_to_look(tmp_path: Path) -> None:
    shown = table(plan(HostMachine(2, 0, Path("var/cluster"), 5672), tmp_path / "secret"), Path("var/cluster"))
    assert shown.splitlines()[1].split() == [
        "n1",
        "127.0.0.1:5672",
        "127.0.0.1:5772",
        "127.0.0.1:5872",
        "127.0.0.1:5972",
        "127.0.0.1:6072",
    ]
    assert "leveretctl --node 127.0.0.1:5772 cluster status" in shown


def test_of_each_machine_of_a_larger_cluster_one_node_founds_it_and_the_others_join_that_one(tmp_path: Path) -> None:
    nodes = plan(machine_of_two("10.0.0.2", tmp_path / "secret"), tmp_path / "secret")
    assert [node.name for node in nodes] == ["east-1", "east-2", "east-3"]
    assert [given(node, "--zone") for node in nodes] == [["east"]] * 3
    assert [given(node, "--nodes-on-machine") for node in nodes] == [["3"]] * 3
    assert [given(node, "--peers") for node in nodes] == [list(FOUNDERS), [], []]
    assert [given(node, "--join") for node in nodes] == [[], ["10.0.0.2:5972"], ["10.0.0.2:5972"]]
    assert nodes[2].command[-1] == "--ram"


def test_a_machine_without_a_founder_joins_one_of_another_machine(tmp_path: Path) -> None:
    nodes = plan(machine_of_two("10.0.0.9", tmp_path / "secret"), tmp_path / "secret")
    assert [given(node, "--join") for node in nodes] == [["10.0.0.1:5972"]] * 3


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_an_address_that_nobody_can_call_is_refused(host: str, tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="is no address: give the one that others reach this machine at"):
        plan(HostMachine(1, 0, tmp_path, 5672, host), tmp_path / "secret")


def test_several_machines_need_one_secret(tmp_path: Path) -> None:
    alone = replace(machine_of_two("10.0.0.1", tmp_path / "secret"), secret_file=None)
    with pytest.raises(CannotStart, match="--peers needs --secret-file"):
        plan(alone, tmp_path / "secret")
