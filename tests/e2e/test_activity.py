"""What happened lately, asked of any node of a cluster: events, the log, changes; and operations on other nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pika
import pytest

from tests.e2e.test_management_cluster import ask, get, until
from tests.running_cluster import RunningCluster, running_cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with running_cluster(Path(tmp_path_factory.mktemp("activity"))) as running:
        running.ready(3)
        yield running


def rows(cluster: RunningCluster, node: int, what: str, **query: Any) -> list[dict[str, Any]]:
    asked = "&".join(f"{name}={quote(str(value))}" for name, value in query.items())
    return list(get(cluster, node, f"leveret/{what}?{asked}")["items"])


def connected(cluster: RunningCluster, node: int) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters(*cluster.amqp(node), heartbeat=0))


def test_an_event_of_the_catalog_is_told_once_and_one_of_a_client_by_its_node(cluster: RunningCluster) -> None:
    connection = connected(cluster, 2)
    channel = connection.channel()
    for _ in range(2):  # declared again it is no event
        channel.queue_declare("told-of", durable=True)
    until(lambda: [one["name"] for one in rows(cluster, 3, "events", kind="queue.created")].count("told-of") == 1)
    created = rows(cluster, 3, "events", kind="connection.created")
    assert any((one["node"], one["user"], one["vhost"]) == ("n2", "guest", "/") for one in created)
    connection.close()
    until(lambda: bool(rows(cluster, 3, "events", kind="connection.closed")))


def test_who_leads_a_queue_is_told_by_its_node_and_a_binding_by_the_one_that_is_asked(cluster: RunningCluster) -> None:
    connection = connected(cluster, 1)
    channel = connection.channel()
    channel.queue_declare("led", durable=True, arguments={"x-queue-type": "quorum"})
    channel.queue_bind("led", "amq.topic", "a.b")
    until(lambda: [one["name"] for one in rows(cluster, 3, "events", kind="binding.created")].count("led") == 1)

    def leaders() -> list[str]:
        told = rows(cluster, 2, "events", kind="queue.leader.elected")
        return [one["node"] for one in reversed(told) if one["name"] == "led"]

    until(lambda: len(leaders()) == 1)
    other = next(f"n{number}" for number in (1, 2, 3) if f"n{number}" not in leaders())
    assert ask(cluster, 1, "PUT", "leveret/queues/%2F/led/group/leader", {"node": other})[0] == 204
    until(lambda: leaders()[1:] == [other])
    connection.close()


def test_a_cursor_shows_what_is_new_and_no_more(cluster: RunningCluster) -> None:
    cursor = get(cluster, 1, "leveret/events")["cursor"]
    connection = connected(cluster, 1)
    connection.channel().queue_declare("new-one", durable=True)
    found = get(cluster, 1, f"leveret/events?kind=queue&cursor={quote(cursor)}")
    assert [one["name"] for one in found["items"]] == ["new-one"]
    assert get(cluster, 1, f"leveret/events?kind=queue&cursor={quote(found['cursor'])}")["items"] == []
    connection.close()


def test_who_changed_what_is_found_from_any_node_by_user_and_text(cluster: RunningCluster) -> None:
    assert ask(cluster, 2, "PUT", "vhosts/audited", {})[0] == 201
    (change,) = rows(cluster, 1, "audit", user="guest", contains="put vhost 'audited'")
    assert (change["node"], change["outcome"], change["protocol"]) == ("n2", "done", "HTTP")
    assert rows(cluster, 1, "audit", user="somebody", contains="audited") == []


def test_the_log_of_all_nodes_is_shown_from_a_level_on(cluster: RunningCluster) -> None:
    assert {one["node"] for one in rows(cluster, 1, "log", limit=1000)} == {"n1", "n2", "n3"}
    assert {one["level"] for one in rows(cluster, 1, "log", level="warning")} <= {"warning", "error", "critical"}


@pytest.mark.parametrize("query", ["cursor=x", "cursor=n1:x", "cursor=n1:-1", "limit=0", "limit=9999", "limit=x"])
def test_a_cursor_or_limit_that_means_nothing_is_refused(cluster: RunningCluster, query: str) -> None:
    assert ask(cluster, 1, "GET", f"leveret/events?{query}")[0] == 400


def test_a_level_that_is_none_is_refused(cluster: RunningCluster) -> None:
    assert ask(cluster, 1, "GET", "leveret/log?level=loud")[0] == 400


def test_a_consumer_on_another_node_is_cancelled_and_keeps_what_it_holds(cluster: RunningCluster) -> None:
    connection = connected(cluster, 2)
    channel = connection.channel()
    cancelled: list[str] = []
    channel.queue_declare("consumed", durable=True)
    channel.basic_publish("", "consumed", b"held")
    tag = channel.basic_consume("consumed", lambda *given: None, consumer_tag="far consumer")
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    until(lambda: any(one["consumer_tag"] == tag for one in get(cluster, 1, "consumers")))
    (consumer,) = [one for one in get(cluster, 1, "consumers") if one["consumer_tag"] == tag]
    details = consumer["channel_details"]
    path = f"leveret/connections/{quote(details['connection_name'], safe='')}/channels/{details['number']}/consumers"
    assert ask(cluster, 1, "DELETE", f"{path}/{quote(tag, safe='')}")[0] == 204
    while not cancelled:
        connection.process_data_events(5)
    assert cancelled == [tag]
    assert ask(cluster, 1, "DELETE", f"{path}/{quote(tag, safe='')}")[0] == 404
    assert ask(cluster, 1, "DELETE", f"{path.replace('/channels/1/', '/channels/x/')}/{quote(tag, safe='')}")[0] == 400
    connection.close()


def test_another_node_is_drained_and_revived_through_this_one(cluster: RunningCluster) -> None:
    def is_draining() -> bool:
        return any(one["name"] == "n3" and one["draining"] for one in get(cluster, 1, "leveret/cluster")["nodes"])

    assert ask(cluster, 1, "POST", "leveret/cluster/drain", {"node": "nowhere"})[0] == 404
    assert ask(cluster, 1, "POST", "leveret/cluster/drain", {"node": "n3"})[0] == 204
    until(is_draining)
    assert ask(cluster, 1, "POST", "leveret/cluster/revive", {"node": "n3"})[0] == 204
    until(lambda: not is_draining())


def test_what_a_user_may_do_with_a_name_is_said(cluster: RunningCluster) -> None:
    assert ask(cluster, 1, "PUT", "users/asked", {"password": "x", "tags": ""})[0] == 201
    rights = {"configure": "^$", "write": "^orders", "read": ".*"}
    assert ask(cluster, 1, "PUT", "permissions/%2F/asked", rights)[0] == 201
    found = get(cluster, 1, "leveret/users/asked/access?vhost=/&name=orders.new")
    assert (found["enter"], found["configure"], found["write"], found["read"]) == (True, False, True, True)
    assert ask(cluster, 1, "GET", "leveret/users/asked/access?vhost=/")[0] == 400
    assert ask(cluster, 1, "GET", "leveret/users/nobody/access?vhost=/&name=x")[0] == 404


def test_connections_that_are_held_up_are_a_list_of_their_own(cluster: RunningCluster) -> None:
    assert get(cluster, 1, "leveret/blocked-connections") == []
