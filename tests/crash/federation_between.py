"""Messages between another broker and a node by federation, both ways, while each end is killed again and again.

    python -m tests.crash.federation_between --url amqp://guest:guest@127.0.0.1:5672 --management 127.0.0.1:15672 \
        --pid 'cat /var/lib/rabbitmq/mnesia/rabbit.pid' --start 'systemctl start rabbitmq-server'

Options as of tests.crash.shovels_between. Four links: of an exchange and of a queue, each with the other broker as the
upstream and with the node. All messages have to come to a consumer of the downstream, once or more often; the command fails
otherwise.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

from tests.crash.numbered import Collector, client_of, publish_numbers
from tests.crash.two_brokers import EVERY_S, STEP_S_MAX, Broker, OwnNode, arguments, put, report, waiting

KILLS = 4  # of each link, of one end and the other
NAMES = {Broker: "the.other", OwnNode: "own"}  # of the clusters

End = Broker | OwnNode


def federate(downstream: End, upstream: End, name: str, kind: str) -> None:
    """What `name` says, an exchange or a queue, gets messages of the upstream's."""
    value = {"uri": upstream.url, "reconnect-delay": 1}
    put(downstream, f"/api/parameters/federation-upstream/%2F/{name}", {"value": value})
    definition = {"federation-upstream": name}
    put(
        downstream,
        f"/api/policies/%2F/{name}",
        {"pattern": f"^{name}$".replace(".", "\\."), "apply-to": kind, "definition": definition},
    )


def exchange_link(upstream: End, downstream: End, name: str, count: int) -> Collector:
    """All messages wait in the upstream's queue of the link, for the downstream comes back behind the last one: both ends are
    killed while the link works. Its consumer is at a queue that is bound downstream."""
    connection = downstream.connect()
    channel = connection.channel()
    channel.exchange_declare(name, "direct", durable=True)
    channel.queue_declare(f"{name}.arrived", durable=True)
    channel.queue_bind(f"{name}.arrived", name, "k")
    connection.close()
    federate(downstream, upstream, name, "exchanges")
    until_bound(upstream, name)
    downstream.kill()
    publish_numbers(client_of(upstream.url), name, "k", count)
    downstream.start()
    return Collector(lambda: downstream.url, f"{name}.arrived", count)


def until_bound(upstream: End, name: str) -> None:
    deadline = time.monotonic() + STEP_S_MAX
    while b'"k"' not in upstream.ask("GET", f"/api/exchanges/%2F/{quote(name)}/bindings/source")[1]:
        assert time.monotonic() < deadline, f"the link of {name} has not copied its binding"
        time.sleep(EVERY_S)


def queue_link(upstream: End, downstream: End, name: str, count: int) -> Collector:
    waiting(upstream, name)
    publish_numbers(client_of(upstream.url), "", name, count)
    federate(downstream, upstream, name, "queues")
    return Collector(lambda: downstream.url, name, count)


def collected(ends: tuple[End, End], collector: Collector, count: int) -> int:
    """Waits until all numbers have come, and kills both ends meanwhile, in turn. Answers how often."""
    kills, deadline = 0, time.monotonic() + STEP_S_MAX
    while collector.distinct < count:
        assert time.monotonic() < deadline, f"{count - collector.distinct} of {count} did not come"
        if kills < KILLS and collector.distinct >= count * (kills + 1) // (KILLS + 1):
            ends[kills % 2].kill_and_start()
            kills += 1
        time.sleep(EVERY_S)
    return kills


LINKS = {"exchange": exchange_link, "queue": queue_link}


def run(broker: Broker, node: OwnNode, count: int) -> None:
    put(broker, "/api/cluster-name", {"name": NAMES[Broker]})
    for upstream, downstream in ((broker, node), (node, broker)):
        for kind, begin in LINKS.items():
            name = f"{kind}.of.{NAMES[type(upstream)]}"
            began = time.monotonic()
            collector = begin(upstream, downstream, name, count)
            collector.start()
            kills = collected((upstream, downstream), collector, count)
            collector.end()
            report(name, count, time.monotonic() - began, kills)
            print(f"  nothing is lost, {collector.delivered - count} came more often than once", flush=True)
            downstream.ask("DELETE", f"/api/policies/%2F/{name}")


def main(given_arguments: list[str]) -> int:
    parser = arguments(__doc__)
    parser.add_argument("--management", required=True)
    given = parser.parse_args(given_arguments)
    broker = Broker(given.url, given.pid, given.start, given.management)
    with tempfile.TemporaryDirectory(prefix="leveret-federation-") as folder:
        node = OwnNode(Path(folder) / "node")
        node.start()
        try:
            run(broker, node, given.count)
        finally:
            node.running.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
