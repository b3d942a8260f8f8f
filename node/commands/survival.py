"""`leveret survive`: the other disk nodes are lost for good, and the node of this directory goes on as the only one.

For an operator who has lost a majority of the disk nodes and cannot bring it back: nobody else may decide that. If the others
are not gone but cut off, there are two clusters from then on, and each of them confirms what the other one does not know. So
this is done to the directory of a stopped node, told before it is done, and never by itself.

    catalog           as this node has it; what the others had agreed on a moment before may be missing. The other disk nodes
                      are removed, RAM nodes stay; started anew they fetch it
    replicated queues with a member here go on with what that has; a member that was behind misses confirmed messages. Those
                      without one are removed
    classic queues    of removed nodes are removed

Who does it types the node's name, and a report of what was decided and lost stays in the directory (`survival.json`),
written before anything is changed. Cut short anywhere, the command is given again: until all is done the next start waits for
the others as before, and each step is done anew or finds itself done.

At its next start the node founds the metadata group anew on this catalog (node/catalog/metadata_member.py), and its members
of replicated queues become the only ones (replicated/sole_replica.py). Removed nodes join again with empty directories.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from broker.catalog.catalog import Catalog
from broker.catalog.catalog_state import encode_head
from broker.catalog.commands.catalog_commands import RemoveNode, SetQueueMembers, encode_record
from broker.records import NodeRecord, QueueRecord
from node.catalog import catalog_store
from node.catalog.catalog_store import HEAD_KEY, key_of, replacement
from node.identity import DISK, NodeIdentity
from raft.core.messages import NodeId, node_of
from storage import names
from storage.lmdb_store import LmdbStore
from storage.os_disk import OsDisk

SHOWN_MAX = 20  # queues that are named


class CannotSurvive(Exception):
    """The text says why this directory cannot go on alone."""


@dataclass(slots=True, frozen=True)
class Plan:
    """What becomes of the cluster."""

    me: NodeRecord
    removed: tuple[NodeRecord, ...]
    kept: tuple[QueueRecord, ...]  # replicated queues that go on with the member that is here
    lost: tuple[QueueRecord, ...]

    def report(self, at: str) -> dict[str, Any]:
        """Everything that is lost, by name: what `sentences` cuts short."""
        return {
            "at": at,
            "node": self.me.name,
            "removed_nodes": [node.name for node in self.removed],
            "queues_that_go_on": [_named(one) for one in self.kept],
            "lost_queues": [_named(one) for one in self.lost],
            "said": self.sentences(),
        }

    def sentences(self) -> list[str]:
        gone = ", ".join(node.name for node in self.removed)
        said = [
            f"node {self.me.name} goes on as the only disk node. Removed for good: {gone}. If one of them still runs, stop it "
            f"first: two clusters would take messages that the other one does not know",
            f"{len(self.kept)} replicated queues go on with what this node has of them. Where it was behind, confirmed "
            f"messages are missing",
            "what the others had declared or changed in the last moment may be missing",
        ]
        if self.lost:
            named = "; ".join(one.label for one in self.lost[:SHOWN_MAX])
            more = f"; and {len(self.lost) - SHOWN_MAX} more" if len(self.lost) > SHOWN_MAX else ""
            said.append(f"{len(self.lost)} queues were only on removed nodes and are lost: {named}{more}")
        return said


def _named(record: QueueRecord) -> dict[str, str]:
    return {"vhost": record.vhost, "queue": record.name, "type": record.kind, "home": record.home}


def plan_of(catalog: Catalog, me: NodeId) -> Plan:
    """Raises CannotSurvive."""
    mine = catalog.node_of_number(me)
    if mine is None or mine.kind != DISK:
        raise CannotSurvive(f"node {me} is no disk node of its cluster: only a disk node keeps what is declared")
    others = sorted(catalog.nodes.values(), key=lambda node: node.name)
    removed = tuple(node for node in others if node.kind == DISK and node.number != me)
    if not removed:
        raise CannotSurvive(f"node {mine.name} is the only disk node already: start it")
    names_gone = {node.name for node in removed}
    queues = [record for vhost in catalog.vhosts for record in catalog.queues(vhost)]
    kept = tuple(one for one in queues if one.kind != "classic" and me in map(node_of, one.members))
    lost = tuple(
        one
        for one in queues
        if (one.kind != "classic" and me not in map(node_of, one.members))
        or (one.kind == "classic" and one.home in names_gone)
    )
    return Plan(mine, removed, kept, lost)


def carry_out(catalog: Catalog, plan: Plan) -> None:
    lost = {record.id for record in plan.lost}
    catalog.remove_queues(lambda record: record.id in lost)  # also what an exchange needs for its delayed messages
    for record in plan.kept:
        members = tuple(member for member in record.members if node_of(member) == plan.me.number)
        catalog.apply(SetQueueMembers(record.vhost, record.name, record.id, members, formed=1, anew=True))
    for node in plan.removed:
        catalog.apply(RemoveNode(node.name))


@dataclass(slots=True, frozen=True)
class Survival:
    """What was said, and whether it was done."""

    sentences: Sequence[str]
    done: bool
    report: str = ""  # the file that has everything that is lost


def survive(directory: Path, *, confirm: str = "") -> Survival:
    """Only told, unless `confirm` has the node's name. Raises CannotSurvive, CatalogDamaged, DirectoryInUse, StorageError."""
    if not (directory / names.NODE_FACTS).is_file():
        raise CannotSurvive(f"{directory} is no data directory of a node")
    disk = OsDisk(str(directory))
    disk.lock(names.LOCK)
    try:
        identity = NodeIdentity.begin(disk, "", DISK, time.time_ns() // 1_000_000, os.urandom)
        if not identity.number:
            raise CannotSurvive(f"the node of {directory} belongs to no cluster")
        store = LmdbStore(disk.path(names.CATALOG_DIRECTORY))
        try:
            return _survive(disk, identity, store, confirm)
        finally:
            store.close()
    finally:
        disk.unlock()


def _survive(disk: OsDisk, identity: NodeIdentity, store: LmdbStore, confirm: str) -> Survival:
    catalog = Catalog()
    position = catalog_store.load(store, catalog)
    begun = _begun(disk, identity, catalog)
    if begun is not None:
        return _finished(disk, identity, begun, confirm)
    plan = plan_of(catalog, identity.number)
    if not confirm:
        return Survival(plan.sentences(), done=False)
    _check_confirmed(confirm, plan.me.name)
    report = plan.report(datetime.now(UTC).isoformat(timespec="seconds")) | {"after": identity.earlier_incarnation}
    _write_report(disk, report)
    carry_out(catalog, plan)
    rows = {key_of(record): encode_record(record) for record in catalog.records()}
    store.commit(replacement(store, {HEAD_KEY: encode_head(position, catalog.head), **rows}))
    return _finished(disk, identity, report, confirm)


def _begun(disk: OsDisk, identity: NodeIdentity, catalog: Catalog) -> dict[str, Any] | None:
    """The report of an attempt that has changed the catalog, if no process of the node has run since."""
    if not disk.exists(names.SURVIVAL_REPORT) or any(
        node.kind == DISK and node.number != identity.number for node in catalog.nodes.values()
    ):
        return None
    try:
        report: dict[str, Any] = json.loads(disk.read_file(names.SURVIVAL_REPORT))
    except ValueError as error:
        raise CannotSurvive(f"{disk.path(names.SURVIVAL_REPORT)} cannot be read: {error}. Move it away") from error
    return report if report.get("after") == identity.earlier_incarnation else None


def _finished(disk: OsDisk, identity: NodeIdentity, report: dict[str, Any], confirm: str) -> Survival:
    """The last step: begun anew on the catalog of before, the group would wait for nodes that are gone."""
    if confirm:
        _check_confirmed(confirm, report["node"])
        identity.survive(True)
    return Survival(report["said"], done=bool(confirm), report=disk.path(names.SURVIVAL_REPORT))


def _check_confirmed(typed: str, name: str) -> None:
    if typed != name:
        raise CannotSurvive(f"this is the directory of node '{name}', and '{typed}' was typed: nothing was changed")


def _write_report(disk: OsDisk, report: dict[str, Any]) -> None:
    temporary = names.SURVIVAL_REPORT + names.TEMPORARY_SUFFIX
    if disk.exists(temporary):
        disk.delete(temporary)
    file = disk.create(temporary)
    try:
        file.write_at(0, [json.dumps(report, indent=1).encode()])
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, names.SURVIVAL_REPORT)
    disk.sync_dir("")
