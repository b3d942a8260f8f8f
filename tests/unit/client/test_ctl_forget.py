"""leveretctl cluster forget: what goes with the node is shown before, and its name is to be typed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import typer

from leveret.ctl.terminal import exits
from tests.unit.client.test_ctl import Ctl, node
from tests.unit.front.grpc.fakes import FakeCluster, Running

__all__ = ["node"]  # the fixture


@pytest.fixture
def leveretctl(node: Running, capsys: pytest.CaptureFixture[str]) -> Ctl:
    return Ctl(node.target, capsys)


@pytest.fixture
def cluster(node: Running) -> Iterator[FakeCluster]:
    yield node.cluster
    node.cluster.asked.clear()
    node.cluster.obstacles.clear()
    node.cluster.forgotten = 0


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> list[str]:
    asked: list[str] = []

    def prompt(what: str, err: bool) -> str:
        asked.append(what)
        return text

    monkeypatch.setattr(typer, "prompt", prompt)
    return asked


def test_a_node_with_which_no_classic_queue_goes_is_forgotten_without_a_question(
    leveretctl: Ctl, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = typed(monkeypatch, "n2")
    assert leveretctl("cluster", "forget", "n2").strip() == "node 'n2' belongs to the cluster no more"
    assert (cluster.asked, asked) == (["forget n2"], [])


def test_what_goes_with_a_node_is_named_and_counted_before_its_name_is_to_be_typed(
    leveretctl: Ctl, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.forgotten = 5
    asked = typed(monkeypatch, "n2")
    said = leveretctl("cluster", "forget", "n2", "--limit", "2")
    assert "5 classic queues live on node 'n2'" in said and "and 3 more" in said
    assert "c1" in said and "c2" not in said
    assert len(asked) == 1 and cluster.asked == ["forget n2"]


def test_who_types_another_name_forgets_nothing(
    leveretctl: Ctl, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.forgotten = 1
    typed(monkeypatch, "n3")
    leveretctl("cluster", "forget", "n2", code=exits.USAGE)
    leveretctl("cluster", "forget", "n2", "--confirm", "n3", code=exits.USAGE)
    assert cluster.asked == []


def test_who_is_sure_is_not_asked(leveretctl: Ctl, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.forgotten = 1
    asked = typed(monkeypatch, "nothing")
    leveretctl("cluster", "forget", "n2", "--confirm", "n2", "--anyway")
    assert (cluster.asked, asked) == (["forget n2 anyway"], [])


def test_a_dry_run_changes_nothing_and_says_by_its_code_whether_it_would_be_refused(
    leveretctl: Ctl, cluster: FakeCluster
) -> None:
    cluster.forgotten = 3
    plan = leveretctl.json("cluster", "forget", "n2", "--dry-run", "--limit", "1")
    assert plan == {"node": "n2", "count": 3, "lost": [{"vhost": "/", "queue": "c0"}], "obstacles": []}
    cluster.obstacles.append("node 'n2' is up")
    leveretctl("cluster", "forget", "n2", "--dry-run", code=exits.TEMPORARY)
    assert cluster.asked == []


def test_who_would_be_refused_is_told_before_the_name_is_to_be_typed(
    leveretctl: Ctl, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.forgotten = 1
    cluster.obstacles.append("node 'n2' is up")
    asked = typed(monkeypatch, "n2")
    leveretctl("cluster", "forget", "n2", code=exits.DATA)
    assert (cluster.asked, asked) == ([], [])
