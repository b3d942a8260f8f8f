"""Clusters of brokers as a layer of the simulator."""

from __future__ import annotations

from tests.sim.brokers.invariants import BROKER_INVARIANTS
from tests.sim.brokers.plan import BROKER_KINDS, BrokerShape, draw
from tests.sim.brokers.world import BrokerWorld
from tests.sim.invariants import INVARIANTS
from tests.sim.layers import Layer

RARE_PATHS = (
    "snapshot installed",
    "conflict truncation",
    "learner promotion",
    "damaged member replaced",
    "member found damaged",
    "removed member deletes its log",
    "transfer",
    "crash within a call of the disk",
    "crash within a start",
    "node left dead",
    "node joined",
    "disk replaced",
    "publisher sends again",
    "message refused",
    "consumer cancelled by its node",
    "member added",
    "member removed",
    "connection ended by a wrong checksum",
    "connection made again after damage",
    "RAM node began with the catalog of the others",
    "message to several queues confirmed",
    "message to several queues refused",
    "transaction committed",
    "transaction rolled back",
    "transaction refused in part",
    "settlements committed",
    "settlements rolled back",
    "commit never answered",
    "queue declared again",
    "message of a later life confirmed",
    "message to a deleted queue confirmed",
    "stream cut by retention",
    "stream cut before a reader",
    "stream reader passed by retention",
    "stream reader goes on at its offset",
    "stream reader waits to begin",
    "stream reader cancelled by its node",
    "stream publish was said again",
    "chunk is out of place",
    "stream member added",
    "stream member removed",
    "sub-batch stored",
    "part of a stream publish was known",
    "all of a stream publish was known",
    "publisher goes on behind its last id",
    "stream client told that its stream moved",
    "chunk reader begins within a chunk",
    "chunk reader passed by retention",
    "chunk reader goes on at its offset",
    "chunk reader goes on where it has stored",
    "chunk without what is wanted is passed over",
    "chunk given by a node without a member",
    "group consumer told to begin",
    "group consumer told to stop",
    "dead letter refused",
    "dead letter nowhere",
    "dead letter at least once is refused",
    "dead letter at most once is refused",
)
ENGINE_ONLY = ("read_asked_a_majority",)  # brokers ask for no reads but a catalog that is fetched

LAYER = Layer(
    name="brokers",
    world=BrokerWorld,
    draw=draw,
    shape=BrokerShape,
    kinds=BROKER_KINDS,
    invariants=[name for name in (*INVARIANTS, *BROKER_INVARIANTS) if name not in ENGINE_ONLY],
    rare_paths=RARE_PATHS,
    big=500,
    progress="message confirmed",
)
