"""Who is asked to notice a mutant, cheapest first; each a run of pytest in a copy of the tree."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

RECORDED = "see the difference"  # a scenario whose answers are others: what was promised and not kept says more
CPU_SECONDS_MAX = 170  # for one killer: what takes more hangs
SECONDS_MAX = 20 * CPU_SECONDS_MAX  # what waits hangs, too; whatever else the machine does
# pytest itself would look for those that are installed, which takes half a second: longer than most tests that kill.
PLUGINS = ("pytest_timeout", "_hypothesis_pytestplugin", "tests.mutants.witness")

Tests = tuple[str, ...]  # their names as pytest has them

NODE = (
    "raft/driver.py", "raft/requests.py", "raft/groups.py", "raft/group_deadlines.py", "raft/stopped_members.py",
    "raft/faults.py", "raft/failure_detector.py", "raft/transport.py", "raft/core/codec.py",
)  # fmt: skip
STORE = ("storage/", "raft/store/", "raft/group_owners.py", "raft/core/live_entries.py", "raft/core/packs.py")

FRONTS = "front/"
QUORUM_QUEUES = ("quorum/", "replicated/")
STREAMS = ("stream/",)
BROKERS = ("broker/", "classic/", "links/", FRONTS, "node/", *QUORUM_QUEUES, *STREAMS)
ENGINE = ("raft/", "storage/")
ALL_BUT_QUEUES = (*ENGINE, "broker/", "classic/", FRONTS, "node/", *STREAMS)  # quorum queues
ALL_BUT_STREAMS = (*ENGINE, "broker/", "classic/", FRONTS, "node/", "quorum/")


@dataclass(frozen=True, slots=True)
class Killer:
    """A group of tests."""

    name: str
    tests: tuple[str, ...]
    only: str = ""  # which of them, for pytest's -k
    to_the_end: bool = False  # run all though one failed: another may say more
    blind_to: tuple[str, ...] = ()  # begins of paths that they cannot see: asking them would only take time
    at_random: bool = False  # what they do is drawn from seeds, and drawn otherwise after any change of the code

    def sees(self, path: str) -> bool:
        return not path.startswith(self.blind_to) if self.blind_to else True

    def asks(self, test_file: str) -> bool:
        return any(test_file == one or test_file.startswith(f"{one}/") for one in self.tests)


KILLERS = (
    Killer("scenarios", ("tests/scenarios/raft",), to_the_end=True, blind_to=(*NODE, *STORE, *BROKERS)),
    Killer(
        "core",
        tuple(
            f"tests/unit/raft/test_{name}.py"
            for name in (
                "log",
                "core",
                "progress",
                "membership",
                "reads",
                "appends_while_installing",
                "snapshot_transfer",
            )
        ),
        blind_to=(*NODE, *STORE, *BROKERS),
    ),
    Killer("random runs", ("tests/unit/raft/test_random_runs.py",), blind_to=(*NODE, *STORE, *BROKERS), at_random=True),
    Killer(
        "log",
        tuple(
            f"tests/unit/storage/test_{name}.py"
            for name in (
                "wal_writer",
                "lmdb_store",
                "wal_shortages",
                "snapshot_file",
                "segment",
                "disk",
                "log_users",
                "group_commit",
                "wal_replay",
                "archive",
                "file_tallies",
            )
        ),
        blind_to=("raft/", *BROKERS),
    ),
    Killer(
        "node",
        tuple(f"tests/unit/raft/test_{name}.py" for name in ("driver", "failure_detector", "groups")),
        blind_to=(*STORE, *BROKERS),
    ),
    Killer(
        "store",
        tuple(
            f"tests/unit/raft/test_{name}.py"
            for name in ("wal_log_store", "incoming", "node_log", "jobs", "store_faults", "replicas")
        ),
        blind_to=(*NODE, *BROKERS),
    ),
    Killer(
        "kept files",
        ("tests/unit/raft/test_kept_logs.py",),
        only="not busy_life",  # which takes long
        blind_to=(*NODE, *BROKERS),
    ),
    Killer("large entries", ("tests/unit/raft/test_entry_files.py",), blind_to=(*NODE, *BROKERS)),
    Killer(
        "damage",
        ("tests/unit/raft/test_store_damage.py", "tests/unit/raft/test_group_formats.py"),
        only="not flipped",
        blind_to=(*NODE, *BROKERS),
    ),
    Killer("every bit", ("tests/unit/raft/test_store_damage.py",), only="flipped", blind_to=(*NODE, *BROKERS)),
    Killer("random lives", ("tests/unit/raft/test_log_replay.py",), blind_to=(*NODE, *BROKERS), at_random=True),
    Killer(
        "classic queues",
        tuple(
            f"tests/unit/classic/test_{name}.py"
            for name in (
                "move_out",
                "store",
                "driver",
                "compaction",
                "damage",
                "file_formats",
                "out_of_reach",
                "disk_failures",
                "noting",
                "disk_calls",
            )
        ),
        only="not whatever_call",  # which draws what it does
        blind_to=(*ENGINE, FRONTS, "broker/", "node/", *QUORUM_QUEUES, *STREAMS),
    ),
    Killer("queue scenarios", ("tests/scenarios/quorum",), blind_to=ALL_BUT_QUEUES),
    Killer(
        "queues",
        tuple(
            f"tests/unit/{name}.py"
            for name in (
                "quorum/test_machine",
                "quorum/test_bounded_entries",
                "quorum/test_returned",
                "quorum/test_returning",
                "quorum/test_numbered",
                "quorum/test_ready_rows",
                "quorum/test_proposals",
                "quorum/test_session",
                "quorum/test_snapshot",
                "replicated/test_remote_serving",
            )
        ),
        blind_to=ALL_BUT_QUEUES,
    ),
    Killer(
        "nodes with queues",
        tuple(
            f"tests/unit/{name}.py"
            for name in (
                "quorum/test_dead_letters",
                "quorum/test_dead_letters_once",
                "quorum/test_holding",
                "quorum/test_driver",
                "replicated/test_departures",
                "replicated/test_comparison",
                "replicated/test_administration",
                "quorum/test_quarantine",
                "quorum/test_local_consumers",
                "quorum/test_attendants",
                "quorum/test_taken_away",
                "replicated/test_queue_time",
                "quorum/test_unreadable",
                "replicated/test_sent_a_snapshot",
            )
        ),
        blind_to=ALL_BUT_QUEUES,
    ),
    Killer(
        "streams",
        (
            *(
                f"tests/unit/stream/test_{name}.py"
                for name in ("machine", "tail", "leading", "stored_form", "stream_queue")
            ),
            *(f"tests/unit/stream/test_{name}.py" for name in ("chunk_readers", "far_readers", "filters")),
            *(
                f"tests/unit/stream/test_{name}.py"
                for name in ("chunk_subscription", "dedup", "rules", "stored_offsets")
            ),
            "tests/contract/test_stream_rules.py",
        ),
        only="not where_the_snapshot and not have_no_gaps and not found_near and not ever_missed"
        " and not ids_ascend_whatever",  # which draw what they do
        blind_to=ALL_BUT_STREAMS,
    ),
    Killer("random streams", ("tests/unit/stream/test_random_streams.py",), blind_to=ALL_BUT_STREAMS, at_random=True),
    Killer(
        "receipts and slices",
        (
            "tests/unit/broker/test_confirms.py",
            "tests/unit/broker/test_run_parts.py",
            "tests/unit/broker/test_works_in_slices.py",
            "tests/unit/broker/test_burials.py",
            "tests/unit/broker/test_dead_letter.py",
            "tests/unit/broker/test_releases.py",
            "tests/unit/broker/test_fan_out.py",
            "tests/unit/classic/test_refusals.py",
            "tests/unit/classic/test_deferred_work.py",
            "tests/unit/classic/test_dead_letters_over_a_stop.py",
            "tests/contract/test_queue_type.py",
        ),
        only="not whatever_comes_between and not every_queue_took",  # which draw what they do
        blind_to=(*ENGINE, FRONTS, *QUORUM_QUEUES, *STREAMS),
    ),
    Killer(
        "turns",
        tuple(
            f"tests/unit/{name}.py"
            for name in (
                "broker/test_background_work",
                "broker/test_turns",
                "front/amqp/test_channel",
                "front/amqp/test_connection",
                "front/amqp/test_server",
                "front/stream/test_connection",
                "front/test_client_socket",
            )
        ),
        blind_to=(*ENGINE, "classic/", "node/", *QUORUM_QUEUES, *STREAMS),
    ),
    Killer(
        "sessions",
        tuple(
            f"tests/unit/broker/{name}.py"
            for name in (
                "test_session",
                "test_delayed_exchange",
                "test_publish",
                "test_broker",
                "stream_clients/test_groups",
                "stream_clients/test_node_groups",
            )
        ),
        blind_to=(*ENGINE, FRONTS, "classic/", "node/", *QUORUM_QUEUES, *STREAMS),
    ),
    Killer(
        "audit, follow and streams",
        tuple(f"tests/unit/analytics/test_{name}.py" for name in ("audit", "follow", "streams")),
        blind_to=(*ENGINE, *BROKERS),
    ),
    Killer(
        "copies of logs and replays",
        tuple(f"tests/unit/analytics/test_{name}.py" for name in ("log_chains", "merged_log", "replay_choice")),
        blind_to=(*ENGINE, *BROKERS),
    ),
    Killer(
        "administration",
        (
            "tests/unit/broker/test_operations.py",
            "tests/unit/node/test_discovery.py",
            "tests/unit/node/test_reconciliation.py",
        ),
        # which draw what they do
        only="not cluster_under_every and not share_one_node and not answer_grows and not steps_come",
        blind_to=(*ENGINE, FRONTS, "classic/", *QUORUM_QUEUES, *STREAMS),
    ),
    Killer("shared limits", ("tests/contract/test_shared_limit.py",), blind_to=(*ENGINE, FRONTS, "classic/")),
    Killer("random queues", ("tests/unit/quorum/test_random_queues.py",), blind_to=ALL_BUT_QUEUES, at_random=True),
    Killer(
        "catalog",
        tuple(
            f"tests/unit/{name}.py"
            for name in (
                "broker/test_catalog",
                "broker/test_catalog_nodes",
                "broker/test_definitions",
                "broker/test_topology",
                "broker/test_route",
                "node/test_metadata_machine",
                "node/test_catalog_store",
                "node/test_courier",
                "node/test_queue_places",
            )
        ),
        blind_to=(*ENGINE, FRONTS, "classic/", *QUORUM_QUEUES, *STREAMS),
    ),
    Killer(
        "catalog on several nodes",
        tuple(
            f"tests/unit/node/test_{name}.py"
            for name in (
                "catalog_followers",
                "cluster_metadata",
                "metadata_member",
                "cluster",
                "upkeep",
                "neighbours",
                "identity",
                "first_boot",
                "kernel",
            )
        ),
        only="not whatever_is_killed",  # which draws what it does
        blind_to=(*ENGINE, FRONTS, "classic/", *QUORUM_QUEUES, *STREAMS),
    ),
    Killer(
        "links",
        tuple(f"tests/unit/node/test_{name}.py" for name in ("peer_frames", "peer_calls", "peer_stranger")),
        blind_to=(*ENGINE, FRONTS, "broker/", *QUORUM_QUEUES, *STREAMS),
    ),
    Killer(
        "conversions",
        tuple(f"tests/unit/node/conversion/test_{name}.py" for name in ("copied", "conversion_core")),
        blind_to=(*ENGINE, FRONTS, "broker/", *QUORUM_QUEUES, *STREAMS),
    ),
    Killer(
        "conversions that nodes hear of late",
        ("tests/unit/node/conversion/test_conversion.py",),
        only="very_late or began_again or stays_what or home_is_removed",
        blind_to=(*ENGINE, FRONTS, *STREAMS),
    ),
    Killer(
        "links to other clusters",
        (
            "tests/unit/broker/test_catalog_claims.py",
            *(
                f"tests/unit/links/test_{name}.py"
                for name in ("link_claims", "federation_link", "exchange_setup", "exchange_link", "node_federation")
            ),
        ),
        only="not whatever_happens and not in_a_ring",  # which draw what they do
        blind_to=(*ENGINE, FRONTS, "classic/", "node/", *QUORUM_QUEUES, *STREAMS),
    ),
    Killer(
        "classic queues of other nodes",
        ("tests/unit/node/test_remote_queues.py",),
        blind_to=(*ENGINE, FRONTS, "broker/", *QUORUM_QUEUES, *STREAMS),
    ),
    Killer("clients of simulated brokers", ("tests/unit/sim/test_broker_clients.py",), blind_to=ENGINE),
    Killer(
        "stream clients of simulated brokers",
        ("tests/unit/sim/test_broker_stream_clients.py",),
        only="each_of_the_ways or big_campaign",
        blind_to=(*ENGINE, FRONTS, "classic/", "node/", "quorum/"),
    ),
    Killer(
        "strangers",
        (
            *(f"tests/unit/broker/test_{name}.py" for name in ("admission", "login_queue")),
            *(f"tests/unit/front/test_{name}.py" for name in ("gate", "backlogs", "listener", "slices")),
            *(f"tests/unit/node/test_{name}.py" for name in ("auth", "alarms", "descriptors", "logs")),
        ),
        only="not counts_stay_right",  # which draws what it does
        blind_to=(*ENGINE, "classic/", *QUORUM_QUEUES, *STREAMS),
    ),
    Killer(
        "logins",
        tuple(
            f"tests/unit/front/{name}.py"
            for name in (
                "amqp/test_handshake",
                "amqp/test_tls_strangers",
                "test_definitions",
                "web/test_api",
                "grpc/test_auth",
                "grpc/test_relay",
            )
        ),
        blind_to=(*ENGINE, "classic/", *QUORUM_QUEUES, *STREAMS),
    ),
    Killer("simulated brokers", ("tests/mutants/simulated_brokers.py",), blind_to=ENGINE, at_random=True),
    Killer("simulator", ("tests/mutants/simulated_seeds.py",), blind_to=BROKERS, at_random=True),
)


class Kill(NamedTuple):
    """Which test noticed, and what it said."""

    killer: str
    test: str
    why: str


class Verdict(NamedTuple):
    """`kill` is None when nobody noticed; `crashes` are tests that fell over without saying what is wrong."""

    kill: Kill | None
    crashes: tuple[str, ...]
    cpu_s: float


class KillerError(Exception):
    """A killer could not be run."""


class Hangs(KillerError):
    """A killer that did not come to its end."""


def warm_up(root: Path) -> frozenset[str]:
    """Import every test once, so that copies of this tree come compiled; the names of all. Raises KillerError."""
    output = _pytest(root, "--collect-only", *(test for killer in KILLERS for test in killer.tests))
    return frozenset(line for line in output.splitlines() if "::" in line)


def ask(root: Path, killer: Killer, tests: Tests = ()) -> Verdict:
    """Run a killer, or some of its tests, on the tree at `root`. Raises KillerError."""
    notes = root / "witness.jsonl"
    notes.unlink(missing_ok=True)
    chosen = tests or (*killer.tests, "-k", killer.only)
    # No timeout of a single test: it fails as an assertion does, and a test that waits for a processor has noticed nothing.
    limits = ("--timeout=0", f"--cpu-seconds={CPU_SECONDS_MAX}")
    arguments = [f"--witness={notes}", *limits, "--hypothesis-seed=0", *chosen]
    if killer.to_the_end:
        arguments.append("--all-witnesses")
    try:
        _pytest(root, *arguments)
    except Hangs as error:
        return Verdict(None, (f"{killer.name}: {error}",), CPU_SECONDS_MAX)
    *found, end = map(json.loads, notes.read_text().splitlines())
    kills = [Kill(killer.name, one["test"], one["why"]) for one in found if one["asserted"]]
    kill = min(kills, key=lambda one: RECORDED in one.why, default=None)
    return Verdict(kill, tuple(f"{one['test']}: {one['why']}" for one in found if not one["asserted"]), end["cpu_s"])


def _pytest(root: Path, *arguments: str) -> str:
    """What it says. Raises KillerError when tests could not even be begun, and Hangs when they did not end."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--tb=short",
        "-p",
        "no:cacheprovider",
        *(part for plugin in PLUGINS for part in ("-p", plugin)),
    ]
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    try:
        done = subprocess.run(
            [*command, *arguments],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Hangs(f"not at its end after {SECONDS_MAX} seconds") from None
    if done.returncode == -signal.SIGXCPU:
        raise Hangs(f"not at its end after {CPU_SECONDS_MAX} seconds of processor time")
    if done.returncode not in (0, 1):
        raise KillerError(f"pytest {' '.join(arguments)} cannot be run:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout
