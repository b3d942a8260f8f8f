"""The catalog of the cluster as this node has it, and the door to changing it: fulfils broker/metadata.py.

A command goes to the metadata group's leader (node/metadata_courier.py), is committed there by a majority of the disk nodes,
and applied on every node (node/metadata_machine.py). A disk node keeps what that changed (node/catalog_keeper.py), and only
then are those told who follow the catalog or wait for an answer. So a queue that somebody may have put a message into is in
the store at the next start, whether or not the other nodes can be reached then. A node alone is a cluster of one voter.

    submit -> courier -> leader's log, majority -> machine -> store -> subscribers, answer

The catalog itself is ahead of what subscribers were told, by what is on its way to the store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from broker.catalog import Catalog
from broker.catalog_commands import Command, Record, UnknownVersion, encode_command
from broker.errors import BrokerError, PreconditionFailed, ResourceExhausted
from broker.metadata import OnApplied
from broker.pending import Pending
from node import catalog_store
from node.background import Background
from node.catalog_difference import difference
from node.catalog_keeper import Keeper
from node.catalog_state import State
from node.catalog_store import encode_head
from node.metadata_courier import FETCH, NOT_TAKEN, SUBMIT, TAKEN, Courier, decode_submit
from node.metadata_group import MetadataGroup
from node.metadata_machine import CatalogMachine, Origin, Outcome, Verdict, Watcher, decode_entry
from node.peer_calls import METADATA, Answer, PeerCalls
from raft.errors import BadBytes
from raft.messages import NodeId
from raft.ready import Role
from storage.lmdb_store import Store

COMMAND_BYTES_MAX = 8 << 20  # of one command; a definition is never as large

logger = logging.getLogger("leveret")

_SNAPSHOT = Origin(0, 0, 0, 0)  # of what a snapshot brought: it is nobody's answer


@dataclass(slots=True, frozen=True)
class MetadataStatus:
    """How the catalog is agreed on, as this node sees it."""

    role: Role | None  # None: this node's member is being replaced
    leader: str  # empty: nobody leads
    term: int
    last: int  # entry of this node's log
    commit: int
    applied: int
    voters: tuple[str, ...]
    missing: tuple[str, ...]  # voters that cannot be reached, if the others are no majority
    waiting: int  # commands of this node that are on their way


class ClusterMetadata(Watcher):
    """See the module. `attach` before anything is submitted."""

    def __init__(self, catalog: Catalog, store: Store, background: Background) -> None:
        """Loads what is stored into the empty catalog. Raises CatalogDamaged."""
        self.catalog = catalog
        position = catalog_store.load(store, catalog)
        self.machine = CatalogMachine(catalog, position, self)
        self._keeper = Keeper(store, background, self._kept, lambda reason: self.on_failed(reason))
        self.on_failed: Callable[[str], None] = logger.error  # told why this node follows no more what is applied
        self._subscribers: list[OnApplied] = []
        self._node = 0
        self._incarnation = 0
        self._group: MetadataGroup
        self._courier: Courier | None = None
        catalog.observer = self._keeper.note

    def attach(
        self,
        node: NodeId,
        incarnation: int,
        group: MetadataGroup,
        calls: PeerCalls,
        monotonic: Callable[[], float],
    ) -> None:
        """Who this node is, and the ways to the others."""
        self._node, self._incarnation = node, incarnation
        self._group = group
        self._courier = Courier(node, incarnation, group, calls, monotonic, self._name_of)
        calls.serve(METADATA, self._serve)

    # the port

    def submit(self, command: Command) -> Pending[Any]:
        return self._submit(command, patient=False)

    def insist(self, command: Command) -> Pending[Any]:
        """As `submit`, but it waits for a majority. What is submitted later is carried out later."""
        return self._submit(command, patient=True)

    def subscribe(self, on_applied: OnApplied) -> None:
        self._subscribers.append(on_applied)

    # for who runs the node

    @property
    def commits(self) -> int:
        """Of the store."""
        return self._keeper.commits

    @property
    def failure(self) -> str | None:
        """Why nothing is accepted any more."""
        return self._keeper.failure

    def leading_changed(self) -> None:
        if self._courier is not None:
            self._courier.pump()

    def tick(self) -> None:
        self._keeper.tick()
        if self._courier is not None:
            self._courier.tick()

    def status(self) -> MetadataStatus:
        status = self._group.status()
        leader, term = self._group.leader()
        return MetadataStatus(
            role=status.role if status is not None else None,
            leader=self._name_of(leader) if leader else "",
            term=term,
            last=status.last if status is not None else 0,
            commit=status.commit if status is not None else 0,
            applied=self.machine.position.applied,
            voters=tuple(map(self._name_of, self._group.voters())),
            missing=tuple(map(self._name_of, self._group.missing())),
            waiting=self._courier.waiting if self._courier is not None else 0,
        )

    def flushed(self) -> Pending[None]:
        """Answered when everything that was applied is kept."""
        pending: Pending[None] = Pending()
        if self._keeper.idle:
            pending.resolve(None)
        else:
            self._keeper.on_idle.append(lambda: pending.resolve(None))
        return pending

    def close(self) -> None:
        """Keeps nothing more; wait for `flushed` first."""
        self.catalog.observer = None
        if self._courier is not None:
            self._courier.close()
        self._keeper.close()

    # what the machine tells

    def applied(self, outcomes: Sequence[Outcome]) -> None:
        self._keeper.keep(outcomes, self._head())

    def replaced(self, before: Sequence[Record]) -> None:
        after = list(self.catalog.records())
        outcomes = [Outcome(_SNAPSHOT, Verdict.DONE, *told) for told in difference(before, after)]
        self._keeper.keep_whole(after, outcomes, self._head())
        incarnation, number = self.machine.position.sessions.get(self._node, (0, 0))
        if self._courier is not None and incarnation == self._incarnation:
            self._courier.overtaken(number)

    def _head(self) -> bytes:
        return encode_head(self.machine.position, self.catalog.head)

    def _kept(self, outcomes: Sequence[Outcome]) -> None:
        missed = False
        for outcome in outcomes:
            mine = outcome.origin.node == self._node and outcome.origin.incarnation == self._incarnation
            if outcome.verdict is Verdict.DONE:
                try:
                    self._tell(outcome, mine)
                except Exception as error:  # what this node serves would not be what is declared any more
                    self.on_failed(f"{type(outcome.command).__name__} was decided and cannot be followed: {error!r}")
                    raise
            missed |= mine and outcome.verdict is Verdict.MISSED
        if missed and self._courier is not None:
            self._courier.send_again()

    def _tell(self, outcome: Outcome, mine: bool) -> None:
        if outcome.error is None and outcome.command is not None:
            for on_applied in self._subscribers:
                on_applied(outcome.command, outcome.result)
        pending = self._courier.applied(outcome.origin.number) if mine and self._courier is not None else None
        if pending is not None and outcome.error is not None:
            pending.fail(outcome.error)
        elif pending is not None:
            pending.resolve(outcome.result)

    # steps

    def _submit(self, command: Command, *, patient: bool) -> Pending[Any]:
        unable = self._keeper.failure or self._keeper.full
        if unable is not None:
            return Pending.failed(ResourceExhausted(unable))
        assert self._courier is not None, (
            f"{type(command).__name__} is submitted before there is a group to decide on it"
        )
        try:
            encoded = encode_command(command)
        except BrokerError as error:
            return Pending.failed(error)
        if len(encoded) > COMMAND_BYTES_MAX:
            text = f"{type(command).__name__} takes {len(encoded)} bytes, and at most {COMMAND_BYTES_MAX} can be kept"
            return Pending.failed(PreconditionFailed(text))
        return self._courier.submit(encoded, patient=patient)

    def _name_of(self, node: NodeId) -> str:
        record = self.catalog.node_of_number(node)
        return record.name if record is not None else f"node {node}"

    # what other nodes ask

    def _serve(self, node: NodeId, payload: bytes, answer: Answer | None) -> None:
        if answer is None:
            raise BadBytes(f"node {node} tells of the catalog, where it should ask")
        if payload[:1] == bytes((SUBMIT,)):
            self._serve_submit(node, decode_submit(payload), answer)
        elif payload == bytes((FETCH,)):
            self._group.read(lambda error: answer(self._whole() if error is None else NOT_TAKEN))
        else:
            raise BadBytes(f"node {node} asks {payload[:1].hex() or 'nothing'} of the catalog, which is no request")

    def _whole(self) -> Sequence[bytes]:
        return [TAKEN, *State(self.catalog, self.machine.position)]

    def _serve_submit(self, node: NodeId, entries: Sequence[bytes], answer: Answer) -> None:
        for entry in entries:
            try:
                origin, _ = decode_entry(entry)
            except UnknownVersion as error:  # all of us would stop at it
                raise BadBytes(f"node {node} submits what is not known here: {error}") from error
            if origin.node != node:
                raise BadBytes(f"node {node} submits a command of node {origin.node}")
        if self._group.leads:
            self._group.propose(entries, lambda _, error: answer(TAKEN if error is None else NOT_TAKEN))
        else:
            answer(NOT_TAKEN)
