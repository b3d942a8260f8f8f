"""Messages from another broker to a node and back, by two shovels, while each end is killed again and again.

    python -m tests.crash.shovels_between --url amqp://guest:guest@127.0.0.1:5672 --count 1000000 \
        --pid 'cat /var/lib/rabbitmq/mnesia/rabbit.pid' --start 'systemctl start rabbitmq-server'

`--pid` is a command that prints the process of the other broker, a genuine RabbitMQ, and `--start` one that starts it again
where it was. All messages have to arrive, once or more often; the command fails otherwise, and says how fast they went.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.crash.numbered import client_of, publish_numbers, take_numbers
from tests.crash.two_brokers import EVERY_S, STEP_S_MAX, Broker, OwnNode, arguments, report, waiting

KILLS = 4  # in each direction, of one end and the other


def moved(node: OwnNode, ends: tuple[Broker | OwnNode, Broker | OwnNode], shovel: str, queues: tuple[str, str]) -> int:
    """Waits until nothing is left at the source, and kills both ends meanwhile, in turn. Answers how often."""
    source, destination = ends
    total = waiting(source, queues[0])
    victims = [ends[number % 2] for number in range(KILLS)]
    kills, deadline = 0, time.monotonic() + STEP_S_MAX
    while waiting(source, queues[0]) or node.unconfirmed(shovel) != 0:
        assert time.monotonic() < deadline, f"{waiting(source, queues[0])} messages did not move"
        if kills < KILLS and waiting(destination, queues[1]) >= total * (kills + 1) // (KILLS + 1):
            victims[kills].kill_and_start()
            kills += 1
        time.sleep(EVERY_S)
    return kills


def main(given_arguments: list[str]) -> int:
    given = arguments(__doc__).parse_args(given_arguments)
    broker = Broker(given.url, given.pid, given.start)
    with tempfile.TemporaryDirectory(prefix="leveret-shovels-") as folder:
        node = OwnNode(Path(folder) / "node")
        node.start()
        try:
            return there_and_back(broker, node, given.count)
        finally:
            node.running.kill()


def there_and_back(broker: Broker, node: OwnNode, count: int) -> int:
    began = time.monotonic()
    waiting(broker, "shovels.from")
    publish_numbers(client_of(broker.url), "", "shovels.from", count)
    report("published", count, time.monotonic() - began, 0)
    own = "amqp://guest:guest@/%2F"
    terms = {"reconnect_delay": 1, "dest_predeclared": True}
    ways: list[tuple[str, tuple[Broker | OwnNode, Broker | OwnNode], tuple[str, str], tuple[str, str]]] = [
        ("there", (broker, node), (broker.url, own), ("shovels.from", "shovels.here")),
        ("back", (node, broker), (own, broker.url), ("shovels.here", "shovels.back")),
    ]
    for name, ends, uris, queues in ways:
        waiting(ends[1], queues[1])
        began = time.monotonic()
        node.declare(name, src_uri=uris[0], src_queue=queues[0], dest_uri=uris[1], dest_queue=queues[1], **terms)
        kills = moved(node, ends, name, queues)
        report(f"moved {name}", count, time.monotonic() - began, kills)
        node.delete(name)
    return arrived(broker, "shovels.back", count)


def arrived(broker: Broker, queue: str, count: int) -> int:
    """Counts what is there; the exit code."""
    left, seen = waiting(broker, queue), bytearray(count)
    total = left
    for number in take_numbers(client_of(broker.url), queue):
        seen[number] = 1
        left -= 1
        if not left:
            break
    lost = count - sum(seen)
    print(f"{count - lost} of {count} arrived, {lost} are lost, {total - count + lost} came more often than once")
    return 0 if lost == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
