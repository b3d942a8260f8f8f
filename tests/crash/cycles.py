"""Ends a real node again and again while clients of two protocols publish with confirms, and judges what it comes back with.

    python -m tests.crash.cycles --end kill --cycles 200 [--seed N] [--json]
    python -m tests.crash.cycles --end power --cycles 100        (as root; see tests/crash/power.py)

Each cycle: publishers work until a drawn number of confirms; the node ends without warning; it must start again;
every queue is drained and judged, and a stream is read on from where it was read to. Clients of AMQP and of the stream protocol
publish into that one, of which one has a name (tests/crash/stream_publishers.py). Every few cycles a part is consumed
and the node is stopped cleanly: nothing that was acknowledged may come back. Half of the cycles run with tiny files, so that
log files roll, segments are flushed and stores are compacted while the end comes.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from pamqp import commands

from tests.bench.client import Client
from tests.crash import power
from tests.crash.stream_publishers import StoredOffset, StreamPublisher, judge_kept
from tests.crash.streams import StreamHistory, look
from tests.crash.workload import Publisher, PublisherHistory, QueueHistory, judge, note_acknowledged, take
from tests.running_node import RunningNode, start_node

AnyPublisher = Publisher | StreamPublisher

STREAM = "crash.stream"
CLEAN_STOP_EVERY = 5
CONFIRMS_MAX = 3_000
CYCLE_TIMEOUT_S = 60.0
TINY = """
[log]
file_bytes_max = 262_144
commit_inline_bytes_max = 0
[classic]
store_file_bytes_max = 65_536
compaction_interval_ms = 50
"""


@dataclass
class Verdict:
    """The counts that are published, and every failure in words."""

    end: str
    seed: int
    cycles: int = 0
    clean_stops: int = 0
    confirmed: int = 0
    found: int = 0
    streamed: int = 0  # messages that the stream has at the end
    start_seconds_max: float = 0.0
    failures: list[str] | None = None


class Cycles:
    """The node's lives, and the histories that outlast them."""

    def __init__(self, end: str, seed: int, scratch: Path, disk: power.PowerDisk | None) -> None:
        self._random = random.Random(seed)
        self._scratch = scratch
        self._disk = disk
        self._data_dir = (disk.path if disk else scratch) / "data"
        self._tiny = scratch / "tiny.toml"
        self._tiny.write_text(TINY)
        first, second, third = (
            PublisherHistory("one", "", "crash.a"),
            PublisherHistory("two", "crash.fan", ""),
            PublisherHistory("three", "crash.fan", ""),
        )
        self._publishers = [first, second, third]
        self._queues = [
            QueueHistory("crash.a", [first]),
            QueueHistory("crash.f1", [second, third]),
            QueueHistory("crash.f2", [second, third]),
        ]
        self._named, self._unnamed = PublisherHistory("named", "", STREAM), PublisherHistory("unnamed", "", STREAM)
        self._stored = StoredOffset()
        self._stream = StreamHistory(STREAM, [second, third, self._named, self._unnamed])
        self.verdict = Verdict(end, seed, failures=[])

    def run(self, cycles: int) -> None:
        node = self._start()
        declare(node)
        for number in range(1, cycles + 1):
            self._publish_until_some_are_confirmed(node)
            self._restore(node)
            node = self._start()
            self._drain_and_judge(node, after_crash=True)
            if number % CLEAN_STOP_EVERY == 0:
                node = self._stop_cleanly(node)
            self.verdict.cycles = number
            print(
                f"cycle {number} of {cycles}: {self.verdict.confirmed} confirmed, {len(self.verdict.failures or [])} failures",
                file=sys.stderr,
            )
            if self.verdict.failures:
                break
        self._note(look(self._stream, node.amqp, whole=True))
        self.verdict.streamed = len(self._stream.known)
        node.stop()

    def _start(self) -> RunningNode:
        begin = time.monotonic()
        options = ["--config", str(self._tiny)] if self._random.random() < 0.5 else []
        node = start_node(self._data_dir, *options)
        self.verdict.start_seconds_max = max(self.verdict.start_seconds_max, time.monotonic() - begin)
        return node

    def _publish_until_some_are_confirmed(self, node: RunningNode, *, finish: bool = False) -> None:
        """Publish until a drawn number of confirms has come in; with `finish`, until every confirm has."""
        target = self._random.randint(1, CONFIRMS_MAX)
        publishers = self._new_publishers(node)
        for publisher in publishers:
            publisher.start()
        deadline = time.monotonic() + CYCLE_TIMEOUT_S
        while sum(publisher.confirmed_now for publisher in publishers) < target:
            waiting = next((publisher for publisher in publishers if publisher.is_alive()), None)
            assert waiting is not None, f"every publisher ended before {target} confirms: {node.log}"
            assert time.monotonic() < deadline, f"{target} confirms did not come within {CYCLE_TIMEOUT_S} s"
            waiting.progress.wait(1.0)
            waiting.progress.clear()
        if finish:
            for publisher in publishers:
                publisher.stop()
        else:
            self._cut(node, publishers)
        for publisher in publishers:
            publisher.join(CYCLE_TIMEOUT_S)
            assert not publisher.is_alive(), f"{publisher.name} hangs"
        histories = (*self._publishers, self._named, self._unnamed)
        self.verdict.confirmed = sum(len(history.confirmed) for history in histories)

    def _new_publishers(self, node: RunningNode) -> list[AnyPublisher]:
        found: list[AnyPublisher] = [
            Publisher(node.amqp, history, self._random.getrandbits(32)) for history in self._publishers
        ]
        at = node.addresses["stream"]
        found.append(StreamPublisher(at, STREAM, self._named, self._random.getrandbits(32), self._stored))
        found.append(StreamPublisher(at, STREAM, self._unnamed, self._random.getrandbits(32)))
        return found

    def _cut(self, node: RunningNode, publishers: list[AnyPublisher]) -> None:
        if self._disk is not None:
            for publisher in publishers:
                publisher.power_goes_off()
            self._disk.cut_power()
        node.kill()

    def _restore(self, node: RunningNode) -> None:
        """The node has ended by now; give the disk its power back."""
        assert node.process.poll() is not None, "the node was to be dead by now"
        if self._disk is not None:
            self._disk.restore_power()

    def _drain_and_judge(self, node: RunningNode, *, after_crash: bool) -> None:
        client = Client(*node.amqp)
        for queue in self._queues:
            found = take(client, queue.name, None)
            self.verdict.found += len(found)
            self._note(judge(queue, found, after_crash=after_crash))
            note_acknowledged(queue, found, certain=False)
        client.close()
        self._note(look(self._stream, node.amqp, whole=False))
        self._note(judge_kept(node.addresses["stream"], STREAM, self._named, self._stored))

    def _note(self, failures: list[str]) -> None:
        assert self.verdict.failures is not None, "made with a list"
        self.verdict.failures += [f"cycle {self.verdict.cycles + 1}: {failure}" for failure in failures]

    def _stop_cleanly(self, node: RunningNode) -> RunningNode:
        """Publish, take a part, stop, start: what was acknowledged is gone for good, the rest is there and in order."""
        self._publish_until_some_are_confirmed(node, finish=True)
        client = Client(*node.amqp)
        taken = [(queue, take(client, queue.name, self._random.randint(0, 500))) for queue in self._queues]
        client.close()
        code = node.stop()
        if code != 0:
            self._note([f"a clean stop ended with exit code {code}: {node.log}"])
        for queue, found in taken:
            note_acknowledged(queue, found, certain=True)
        node = self._start()
        self._drain_and_judge(node, after_crash=False)
        self.verdict.clean_stops += 1
        return node


def declare(node: RunningNode) -> None:
    client = Client(*node.amqp)
    client.call(
        1, commands.Exchange.Declare(exchange="crash.fan", exchange_type="fanout", durable=True), "Exchange.DeclareOk"
    )
    for name in ("crash.a", "crash.f1", "crash.f2"):
        client.declare_queue(name)
    client.declare_queue(STREAM, arguments={"x-queue-type": "stream"})
    for name in ("crash.f1", "crash.f2", STREAM):
        client.call(1, commands.Queue.Bind(queue=name, exchange="crash.fan"), "Queue.BindOk")
    client.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--end", choices=["kill", "power"], required=True)
    parser.add_argument("--cycles", type=int, required=True)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    if options.end == "power" and (why_not := power.available()):
        print(f"no power cuts: {why_not}", file=sys.stderr)
        return 69
    if options.end == "power":
        power.keep_mounts_apart()
    with tempfile.TemporaryDirectory(prefix="leveret-crash-") as name:
        scratch = Path(name)
        if options.end == "power":
            with power.power_disk(scratch) as disk:
                verdict = run_cycles(options.end, options.seed, scratch, disk, options.cycles)
        else:
            verdict = run_cycles(options.end, options.seed, scratch, None, options.cycles)
    print(json.dumps(asdict(verdict)))
    return 1 if verdict.failures else 0


def run_cycles(end: str, seed: int, scratch: Path, disk: power.PowerDisk | None, count: int) -> Verdict:
    cycles = Cycles(end, seed, scratch, disk)
    cycles.run(count)
    return cycles.verdict


if __name__ == "__main__":
    sys.exit(main())
