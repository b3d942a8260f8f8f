"""Run the test suites that AMQP clients ship with their sources against a node.

    python -m tests.compat.suites --amqp 127.0.0.1:5672 --http 127.0.0.1:15672 [--suite pika,kombu]

What it promises: every test id in `expected/<suite>.txt` passed twice on a genuine RabbitMQ 4.3.6, and the command
exits with 0 only if each of them passed here too. `--record` writes those lists instead of comparing with them.
Exit codes: 0 all as expected, 1 something that should pass did not, 2 a suite could not be run at all.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pika  # type: ignore[import-untyped]

from tests.compat.catalog import SUITES, Suite
from tests.compat.tls_front import tls_front
from tests.compat.workspace import NoSource, interpreter_of, source_of

HERE = Path(__file__).resolve().parent
EXPECTED = HERE / "expected"
CACHE = HERE.parents[1] / "var" / "compat"
LISTED_MAX = 40


@dataclass(frozen=True)
class Broker:
    """Where the node under test answers."""

    amqp: tuple[str, int]
    amqps: tuple[str, int]
    http: tuple[str, int]
    stream: tuple[str, int]


@dataclass(frozen=True)
class Verdict:
    """What one suite said, beside what was recorded for it."""

    suite: str
    passed: frozenset[str]
    seen: frozenset[str]
    expected: frozenset[str]
    seconds: float
    stopped: bool

    @property
    def missed(self) -> frozenset[str]:
        return self.expected - self.passed

    @property
    def gained(self) -> frozenset[str]:
        return self.passed - self.expected


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    names = _suite_names(options.suite)
    with contextlib.ExitStack() as stack:
        if not _answers(options.amqp):
            print(f"nothing answers on --amqp {_text(options.amqp)}: start the node first", file=sys.stderr)
            return 2
        amqps = options.amqps or ("127.0.0.1", stack.enter_context(tls_front(*options.amqp)))
        broker = Broker(options.amqp, amqps, options.http, options.stream)
        verdicts = []
        unrun = []
        for name in names:
            try:
                verdict = _judge(SUITES[name], broker, options)
            except (NoSource, subprocess.CalledProcessError) as error:
                unrun.append(name)
                print(f"{name}: not run: {error}", file=sys.stderr)
                continue
            verdicts.append(verdict)
            if options.record is not None:
                _record(verdict, options.record)
    _print_table(verdicts)
    if options.record is None:
        _print_missed(verdicts)
    if unrun:
        return 2
    return int(options.record is None and any(verdict.missed for verdict in verdicts))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.compat.suites", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--amqp", type=_address, default=("127.0.0.1", 5672), metavar="HOST:PORT")
    parser.add_argument(
        "--amqps", type=_address, metavar="HOST:PORT", help="default: TLS is put in front of --amqp by this program"
    )
    parser.add_argument("--http", type=_address, default=("127.0.0.1", 15672), metavar="HOST:PORT")
    parser.add_argument("--stream", type=_address, default=("127.0.0.1", 5552), metavar="HOST:PORT")
    parser.add_argument("--suite", default="all", help=f"all, or some of {', '.join(SUITES)} (comma between)")
    parser.add_argument(
        "--source", type=_source, action="append", default=[], metavar="SUITE=DIR", help="use this unpacked source"
    )
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="DIR")
    parser.add_argument("--runs", type=int, default=1, help="run this often; a test passes if it passed every time")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--expect", action="store_true", help="compare with the recorded lists (the default)")
    mode.add_argument(
        "--record", type=Path, nargs="?", const=EXPECTED, metavar="DIR", help="write the lists of what passed"
    )
    parser.add_argument("-k", dest="only", default="", metavar="EXPRESSION", help="pytest's -k, to look at some tests")
    return parser.parse_args(arguments)


def _address(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is not HOST:PORT")
    return host, int(port)


def _source(text: str) -> tuple[str, Path]:
    name, separator, directory = text.partition("=")
    if not separator or name not in SUITES:
        raise argparse.ArgumentTypeError(f"'{text}' is not SUITE=DIR with one of {', '.join(SUITES)}")
    return name, Path(directory)


def _suite_names(text: str) -> list[str]:
    if text == "all":
        return list(SUITES)
    names = text.split(",")
    for name in names:
        if name not in SUITES:
            raise SystemExit(f"--suite: '{name}' is none of {', '.join(SUITES)}")
    return names


def _answers(address: tuple[str, int]) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(address, timeout=5):
        return True
    return False


def _judge(suite: Suite, broker: Broker, options: argparse.Namespace) -> Verdict:
    source = source_of(suite, options.cache, dict(options.source).get(suite.name))
    python = interpreter_of(suite, options.cache)
    listed = EXPECTED / f"{suite.name}.txt"
    expected = frozenset(listed.read_text().splitlines()) if listed.is_file() else frozenset()
    began = time.monotonic()
    passed: frozenset[str] | None = None
    seen: frozenset[str] = frozenset()
    stopped = False
    for _ in range(options.runs):
        _remove_leftovers(suite, broker)
        outcomes, cut_short = _run(suite, source, python, broker, options)
        stopped |= cut_short
        good = frozenset(test for test, outcome in outcomes.items() if outcome == "passed")
        passed = good if passed is None else passed & good
        seen |= frozenset(outcomes)
    if options.only:
        expected &= seen  # what was not asked for is not missed
    return Verdict(suite.name, passed or frozenset(), seen, expected, time.monotonic() - began, stopped)


def _remove_leftovers(suite: Suite, broker: Broker) -> None:
    if not suite.leftovers:
        return
    host, port = broker.amqp
    with contextlib.closing(pika.BlockingConnection(pika.ConnectionParameters(host, port))) as connection:
        channel = connection.channel()
        for queue in suite.leftovers:
            channel.queue_delete(queue)


def _run(
    suite: Suite, source: Path, python: Path, broker: Broker, options: argparse.Namespace
) -> tuple[dict[str, str], bool]:
    """Every finished test with its outcome, and whether the suite had to be stopped."""
    report = options.cache / suite.name / "report.tsv"
    report.unlink(missing_ok=True)
    addresses = _addresses(broker)
    arguments = [argument.format(**addresses) for argument in suite.arguments]
    command = [str(python), "-m", "pytest", *arguments, "-q", "-rfE", "--tb=short", "-p", "no:cacheprovider"]
    command += [f"--timeout={suite.test_seconds_max}"]
    for plugin in suite.plugins:
        command += ["-p", plugin]
    if options.only:
        command += ["-k", options.only]
    log = options.cache / suite.name / "output.txt"
    print(f"{suite.name} {suite.version}: running, output in {log}", file=sys.stderr)
    with log.open("w") as output:
        child = subprocess.Popen(
            command,
            cwd=source,
            env=_environment(suite, broker, report),
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            child.wait(suite.suite_seconds_max)
            stopped = False
        except subprocess.TimeoutExpired:
            stopped = True
        finally:
            # The group is the suite's own: a client that it left behind must not outlive it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if not report.is_file():
        raise NoSource(f"pytest could not start, see {log}")
    return dict(reversed(line.split("\t", 1)) for line in report.read_text().splitlines()), stopped


def _addresses(broker: Broker) -> dict[str, str]:
    """What arguments and variables of a suite may name."""
    return {
        "amqp_host": broker.amqp[0],
        "amqp_port": str(broker.amqp[1]),
        "amqps_port": str(broker.amqps[1]),
        "http": _text(broker.http),
        "stream_host": broker.stream[0],
        "stream_port": str(broker.stream[1]),
    }


def _environment(suite: Suite, broker: Broker, report: Path) -> dict[str, str]:
    customary = {5672: broker.amqp, 5671: broker.amqps, 15672: broker.http, 5552: broker.stream}
    redirected = customary if suite.redirected else {}
    addresses = _addresses(broker)
    return {
        **os.environ,
        **{name: value.format(**addresses) for name, value in suite.environment.items()},
        "PYTHONPATH": str(HERE / "plugins"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "COMPAT_AMQP": _text(broker.amqp),
        "COMPAT_AMQPS": _text(broker.amqps),
        "COMPAT_REDIRECT": ",".join(f"{port}={_text(target)}" for port, target in redirected.items()),
        "COMPAT_REPORT": str(report.resolve()),
    }


def _text(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


def _record(verdict: Verdict, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{verdict.suite}.txt").write_text("".join(f"{test}\n" for test in sorted(verdict.passed)))


def _print_table(verdicts: Iterable[Verdict]) -> None:
    print(f"{'suite':<12}{'tests':>7}{'passed':>8}{'expected':>10}{'missed':>8}{'gained':>8}{'seconds':>9}")
    for verdict in verdicts:
        counts = (len(verdict.seen), len(verdict.passed), len(verdict.expected), len(verdict.missed))
        print(
            f"{verdict.suite:<12}{counts[0]:>7}{counts[1]:>8}{counts[2]:>10}{counts[3]:>8}"
            f"{len(verdict.gained):>8}{verdict.seconds:>9.0f}{'  stopped: over its time' if verdict.stopped else ''}"
        )


def _print_missed(verdicts: Iterable[Verdict]) -> None:
    for verdict in verdicts:
        missed = sorted(verdict.missed)
        for test in missed[:LISTED_MAX]:
            print(f"{verdict.suite}: should pass: {test}{'' if test in verdict.seen else ' (did not finish)'}")
        if len(missed) > LISTED_MAX:
            print(f"{verdict.suite}: and {len(missed) - LISTED_MAX} more")


if __name__ == "__main__":
    sys.exit(main())
