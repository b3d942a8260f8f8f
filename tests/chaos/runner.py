"""One run of a scenario on a backend: load, faults, healing, draining, verdict."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
import traceback
from dataclasses import dataclass, field, replace
from pathlib import Path

from leveret.errors import LeveretError
from tests.chaos import topology
from tests.chaos.amqp import Gone, Refused
from tests.chaos.backend import Backend, NodeFailed
from tests.chaos.cluster import Cluster, NotWell
from tests.chaos.faults import World
from tests.chaos.kinds import FAULTS
from tests.chaos.log_proof import disagreements, doubts, proofs_of_nodes, unproved
from tests.chaos.recorder import Recorder
from tests.chaos.scenarios import Do, Scenario
from tests.chaos.workload import Workload
from tests.histories.judge import judge
from tests.histories.names import judge_names
from tests.histories.records import Refused as RefusedRecord

RUN_WITHIN_S = 300.0
TROUBLE = (NodeFailed, NotWell, LeveretError, Gone, Refused, TimeoutError, OSError)
"""What a run may end with that is the cluster's fault. Anything else is a mistake of these tests, and shown with its way."""
SIGNS_OF_A_BUG = ("Traceback (most recent call last)", "AssertionError")


@dataclass(slots=True)
class Verdict:
    """One line of the outcome."""

    scenario: str
    backend: str
    seed: int
    seconds: float = 0.0
    faults: int = 0
    attempted: int = 0
    confirmed: int = 0
    refused: int = 0
    delivered: int = 0
    name_calls: int = 0
    unproved: dict[str, str] = field(default_factory=dict)  # of which queues the logs prove nothing, and why
    kept: str = ""  # where history and logs are, when something is wrong
    wrong: list[str] = field(default_factory=list)


async def run(scenario: Scenario, name: str, backend: Backend, directory: Path, seed: int) -> Verdict:
    """The directory is removed afterwards, if nothing is wrong."""
    verdict = Verdict(scenario.name, name, seed)
    recorder = Recorder(directory)
    try:
        async with asyncio.timeout(RUN_WITHIN_S):
            await _run(scenario, backend, recorder, random.Random(seed), verdict)
    except TROUBLE as error:
        verdict.wrong.append(f"the run ended with {type(error).__name__}: {error}")
    except Exception:
        verdict.wrong.append(f"the run itself is wrong: {traceback.format_exc()}")
    finally:
        if verdict.wrong:
            for node in backend.shape.names:
                _save_log(backend, node, directory)
        await asyncio.to_thread(backend.end)
    verdict.seconds = round(recorder.now(), 1)
    verdict.attempted, verdict.confirmed, verdict.delivered = recorder.attempted, recorder.confirmed, recorder.delivered
    verdict.refused = sum(isinstance(record, RefusedRecord) for record in recorder.history)
    verdict.name_calls = len(recorder.name_calls)
    if verdict.wrong:
        recorder.save()
        (directory / "wrong.txt").write_text("\n".join(verdict.wrong) + "\n")
        verdict.kept = str(directory)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return verdict


async def _run(scenario: Scenario, backend: Backend, recorder: Recorder, rng: random.Random, verdict: Verdict) -> None:
    await asyncio.to_thread(backend.begin)
    cluster = Cluster(backend)
    world = World(backend, cluster, recorder, rng)
    workload = Workload(cluster, recorder, rng)
    try:
        await cluster.until_well()
        recorder.tell("the cluster stands")
        await workload.declare()
        workload.start()
        verdict.wrong += await workload.until_confirming()
        for step in scenario.steps:
            await _do(step, world, verdict)
        recorder.tell("healed")
        await cluster.until_well()
        recorder.tell("all is well")
        verdict.wrong += await workload.until_confirming()
        verdict.wrong += await workload.stop()
        recorder.tell("clients have stopped")
        verdict.wrong += await workload.drain()
        recorder.tell("drained")
    finally:
        workload.abandon()
        verdict.wrong += world.wrong
    verdict.wrong += await asyncio.to_thread(_stopped_in_order, backend)
    verdict.wrong += await asyncio.to_thread(_judged, scenario, backend, recorder, verdict)
    verdict.wrong += judge_names(recorder.name_calls)


def _judged(scenario: Scenario, backend: Backend, recorder: Recorder, verdict: Verdict) -> list[str]:
    """What clients have to complain of, and where logs tell another story. What the logs do not prove is noted."""
    rules = topology.rules(classic_is_kept=scenario.classic_is_kept)
    history = sorted(recorder.history, key=lambda record: record.at)
    wrong = judge(history, rules)
    with tempfile.TemporaryDirectory(prefix="leveret-chaos-logs-") as links:
        data_dirs = {node: backend.data_dir(node) for node in backend.shape.disk_names}
        rows = proofs_of_nodes(data_dirs, Path(links) / "nodes")
    verdict.unproved = unproved(rows)
    proved = replace(rules, queues=tuple(queue for queue in rules.queues if queue.name not in scenario.converts))
    wrong += doubts(rows, proved) if scenario.logs_are_kept else ()
    return [*wrong, *disagreements(rows, history, proved, wrong)]


async def _do(step: Do, world: World, verdict: Verdict) -> None:
    for _ in range(step.times):
        nodes = await world.choose(step.where)
        verdict.faults += 1
        world.recorder.tell(f"{step.fault.value}: {', '.join(nodes)}")
        async with FAULTS[step.fault](world, nodes):
            for inner in step.during:
                await _do(inner, world, verdict)
            await asyncio.sleep(step.for_s)
            world.recorder.tell(f"end of {step.fault.value}: {', '.join(nodes)}")
        world.recorder.tell(f"over: {step.fault.value}: {', '.join(nodes)}")
        await asyncio.sleep(step.then_s)


def _stopped_in_order(backend: Backend) -> list[str]:
    """Stop all nodes; what they say must not tell of a bug. What is wrong."""
    wrong = []
    for node in backend.shape.names:
        if not backend.is_running(node):
            wrong.append(f"{node} ended by itself: {backend.log(node)[-2_000:]}")
            continue
        try:
            backend.stop(node)
        except NodeFailed as failed:
            wrong.append(str(failed))
    for node in backend.shape.names:
        log = backend.log(node)
        for sign in SIGNS_OF_A_BUG:
            if (at := log.find(sign)) >= 0:
                wrong.append(f"{node} says: {log[max(0, at - 300) : at + 1_500]}")
                break
    return wrong


def _save_log(backend: Backend, node: str, directory: Path) -> None:
    try:
        (directory / f"{node}.log.txt").write_text(backend.log(node))
    except (KeyError, OSError) as error:  # it was never made
        (directory / f"{node}.log.txt").write_text(f"no log: {error!r}\n")
