"""The kinds of fault, in the words of the table of scenarios: what does each, and what it needs of a backend."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from enum import Enum

from tests.chaos.backend import Can
from tests.chaos.cut_short import (
    conversion_cut_short,
    decommission_cut_short,
    drain_cut_short,
    moves_cut_short,
    rebalance_cut_short,
    survival_cut_short,
)
from tests.chaos.faults import (
    BREAKING_LINK,
    DRIPPING_LINK,
    SLOW_LINK,
    Nodes,
    World,
    clients_cut_off,
    deaf,
    drained,
    flapping,
    forgotten,
    in_a_ring,
    isolated,
    killed,
    killed_on_full_disks,
    mute,
    on_corrupting_links,
    on_links,
    paused,
    restarted,
    split,
    stuttering,
    with_empty_disk,
    with_failing_fsync,
    with_full_disks,
    with_little_memory,
    with_little_processor,
    with_nearly_full_disks,
    with_no_further_memory,
    with_old_disk,
    with_rotten_log,
    with_shortened_log,
    with_slow_fsync,
    without_descriptors,
    without_power,
)
from tests.chaos.jobs_cut_short import redrive_cut_short, replay_cut_short


class Fault(Enum):
    """See the module."""

    KILL = "kill -9"
    PAUSE = "pause"
    STUTTER = "stutter"
    RESTART = "restart"
    DRAIN = "drain and revive"
    DRAIN_CUT = "drain, kill -9 at each step"
    DECOMMISSION_CUT = "decommission, kill -9 at each step"
    REBALANCE_CUT = "rebalance, kill -9 behind a move"
    MOVES_CUT = "members move, kill -9 at each step"
    CONVERSION_CUT = "conversion, kill -9 at each step"
    SURVIVAL_CUT = "survive, kill -9 at each sync"
    REDRIVE_CUT = "redrive, kill -9 meanwhile"
    REPLAY_CUT = "replay, kill -9 meanwhile"
    CLIENTS = "close all connections"
    POWER = "power cut"
    FULL = "disk full"
    SLOW_FSYNC = "slow fsync"
    FAILED_FSYNC = "failing fsync"
    MEMORY = "memory alarm"
    ROT = "bit rot in the log"
    SHORTENED = "shortened log"
    WIPED = "wiped disk"
    OLD_DISK = "old copy of the disk"
    FORGOTTEN = "forgotten, joined again"
    ISOLATE = "isolated"
    SPLIT = "split off"
    RING = "ring"
    DEAF = "deaf"
    MUTE = "mute"
    FLAP = "flapping"
    SLOW_LINKS = "slow and jittering links"
    DRIPPING_LINKS = "dripping links"
    BREAKING_LINKS = "resetting links"
    CORRUPTING_LINKS = "corrupting links"
    NEARLY_FULL = "disk full now and then"
    KILLED_FULL = "disk full now and then, kill -9"
    PROCESSOR = "little processor time"
    NO_MEMORY = "memory limit"
    DESCRIPTORS = "no file descriptors"


FAULTS: dict[Fault, Callable[[World, Nodes], AbstractAsyncContextManager[None]]] = {
    Fault.KILL: killed,
    Fault.PAUSE: paused,
    Fault.STUTTER: stuttering,
    Fault.RESTART: restarted,
    Fault.DRAIN: drained,
    Fault.DRAIN_CUT: drain_cut_short,
    Fault.DECOMMISSION_CUT: decommission_cut_short,
    Fault.REBALANCE_CUT: rebalance_cut_short,
    Fault.MOVES_CUT: moves_cut_short,
    Fault.CONVERSION_CUT: conversion_cut_short,
    Fault.SURVIVAL_CUT: survival_cut_short,
    Fault.REDRIVE_CUT: redrive_cut_short,
    Fault.REPLAY_CUT: replay_cut_short,
    Fault.CLIENTS: clients_cut_off,
    Fault.POWER: without_power,
    Fault.FULL: with_full_disks,
    Fault.SLOW_FSYNC: with_slow_fsync,
    Fault.FAILED_FSYNC: with_failing_fsync,
    Fault.MEMORY: with_little_memory,
    Fault.ROT: with_rotten_log,
    Fault.SHORTENED: with_shortened_log,
    Fault.WIPED: with_empty_disk,
    Fault.OLD_DISK: with_old_disk,
    Fault.FORGOTTEN: forgotten,
    Fault.ISOLATE: isolated,
    Fault.SPLIT: split,
    Fault.RING: in_a_ring,
    Fault.DEAF: deaf,
    Fault.MUTE: mute,
    Fault.FLAP: flapping,
    Fault.SLOW_LINKS: on_links(SLOW_LINK),
    Fault.DRIPPING_LINKS: on_links(DRIPPING_LINK),
    Fault.BREAKING_LINKS: on_links(BREAKING_LINK),
    Fault.CORRUPTING_LINKS: on_corrupting_links,
    Fault.NEARLY_FULL: with_nearly_full_disks,
    Fault.KILLED_FULL: killed_on_full_disks,
    Fault.PROCESSOR: with_little_processor,
    Fault.NO_MEMORY: with_no_further_memory,
    Fault.DESCRIPTORS: without_descriptors,
}
NEEDS: dict[Fault, Can] = {
    Fault.POWER: Can.POWER,
    Fault.FULL: Can.FULL,
    Fault.SLOW_FSYNC: Can.FSYNC,
    Fault.FAILED_FSYNC: Can.FSYNC,
    Fault.MEMORY: Can.CONFIG,
    Fault.ISOLATE: Can.ISOLATE,
    Fault.FLAP: Can.ISOLATE,
    Fault.SPLIT: Can.CUT,
    Fault.RING: Can.CUT,
    Fault.DEAF: Can.CUT,
    Fault.MUTE: Can.CUT,
    Fault.SLOW_LINKS: Can.SHAPE,
    Fault.DRIPPING_LINKS: Can.SHAPE,
    Fault.BREAKING_LINKS: Can.SHAPE,
    Fault.CORRUPTING_LINKS: Can.SHAPE,
    Fault.NEARLY_FULL: Can.FULL,
    Fault.KILLED_FULL: Can.FULL,
    Fault.PROCESSOR: Can.LIMIT,
    Fault.NO_MEMORY: Can.LIMIT,
    Fault.DESCRIPTORS: Can.DESCRIPTORS,
    Fault.DRAIN_CUT: Can.LINE,
    Fault.DECOMMISSION_CUT: Can.LINE,
    Fault.REBALANCE_CUT: Can.LINE,
    Fault.MOVES_CUT: Can.LINE,
    Fault.CONVERSION_CUT: Can.LINE,
    Fault.SURVIVAL_CUT: Can.LINE,
}
TAKES_LOGS = frozenset(
    {
        Fault.ROT, Fault.SHORTENED, Fault.WIPED, Fault.OLD_DISK, Fault.FORGOTTEN, Fault.DECOMMISSION_CUT, Fault.SURVIVAL_CUT,
        Fault.FULL, Fault.NEARLY_FULL, Fault.KILLED_FULL,
    }
)  # fmt: skip
"""A disk is damaged or put aside, or so full that it keeps no archive: what happened may stand in no log that is left."""
