"""The catalog of the cluster as this node has it, and the door to changing it: fulfils broker/catalog/commands/metadata.py.

A command goes to the metadata group's leader (node/catalog/courier.py), is committed there by a majority of the disk nodes,
and applied on every node (node/catalog/metadata_machine.py). A disk node keeps what that changed (node/catalog/keeper.py),
and only then are those told who follow the catalog or wait for an answer. So a queue that somebody may have put a message
into is in the store at the next start, whether or not the other nodes can be reached then. A node alone is a cluster of one
voter.

    submit -> courier -> leader's log, majority -> machine -> store -> subscribers -> the other nodes' word -> answer

An answer waits until the other nodes that can be reached have come as far (node/catalog/followers.py). The catalog itself is
ahead of what subscribers were told, by what is on its way to the store, and by what is still to be told: one commit may carry
thousands of deletions, and these are told in slices (broker/background_work.py), in order.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Any

from broker.background_work import Steps, Unsliced, Work, begin
from broker.catalog.carrying_out import CommandOutcome, EntryFate
from broker.catalog.catalog import Catalog
from broker.catalog.catalog_state import CatalogState, encode_head
from broker.catalog.commands.catalog_commands import Command, Record, UnknownVersion, encode_command
from broker.catalog.commands.command_types import IllTyped, check_types
from broker.catalog.commands.metadata import OnApplied
from broker.catalog.commands.metadata_entry import ENTRY_HEAD_BYTES_MAX, Origin, WhenAndWho, decode_entry
from broker.errors import BrokerError, PreconditionFailed, ResourceExhausted
from broker.login.audit import Audit
from broker.login.log_throttle import LogThrottle
from broker.pending import Pending
from node.background import Background
from node.catalog import catalog_store
from node.catalog.courier import FETCH, FOLLOWS, NOT_TAKEN, SUBMIT, TAKEN, Courier, decode_submit
from node.catalog.difference import difference
from node.catalog.entry_versions import EntryVersions
from node.catalog.followers import Followers
from node.catalog.group import MetadataGroup
from node.catalog.keeper import Keeper
from node.catalog.metadata_machine import CatalogMachine, CatalogWatcher
from node.catalog.pieces import Copies, decode_request
from node.logs import AUDIT
from node.peers.calls import METADATA, Answer, PeerCalls
from raft.core.errors import BadBytes, RaftError
from raft.core.messages import NodeId
from raft.core.ready import Role
from storage.lmdb_store import Store

COMMAND_BYTES_MAX = 8 << 20  # of one command; a definition is never as large
REFUSALS_TOLD_S = (
    10.0  # what was not taken is submitted again several times a second: one line in so long for each node
)

logger = logging.getLogger("leveret")
audit_logger = logging.getLogger(AUDIT)

_SNAPSHOT = Origin(0, 0, 0, 0)  # of what a snapshot brought: it is nobody's answer
_FOLLOWS = Struct("<BQQ")  # FOLLOWS | incarnation of the process that submitted | number of its last command


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
    halted: str | None = None  # why this node follows the catalog no more


class ClusterMetadata(CatalogWatcher):
    """See the module. `attach` before anything is submitted."""

    def __init__(self, catalog: Catalog, store: Store, background: Background) -> None:
        """Loads what is stored into the empty catalog. Raises CatalogDamaged."""
        self.catalog = catalog
        position = catalog_store.load(store, catalog)
        self.machine = CatalogMachine(catalog, position, self)
        self.entry_versions = EntryVersions(catalog)
        self.when_and_who: Callable[[], WhenAndWho] = lambda: WhenAndWho(0, 0)  # a command is submitted
        self._keeper = Keeper(store, background, self._kept, lambda reason: self.on_failed(reason))
        self.audit = Audit(note=audit_logger.info, warn=audit_logger.warning)
        self.on_failed: Callable[[str], None] = logger.error  # told why this node follows no more what is applied
        self.halted: str | None = None  # why the machine cannot go on
        self._copies = Copies()  # of the catalog, on their way to nodes that have none
        self.refusals = 0  # of what other nodes submitted
        self._refusals = LogThrottle(REFUSALS_TOLD_S)
        self.work: Work = Unsliced()  # by which subscribers are told
        self._subscribers: list[OnApplied] = []
        self._untold: deque[Sequence[CommandOutcome]] = deque()  # is kept, commit by commit
        self._flushing: list[Pending[None]] = []
        self._node = 0
        self._incarnation = 0
        self._group: MetadataGroup
        self._calls: PeerCalls
        self._courier: Courier | None = None
        self._told: dict[NodeId, bytes] = {}  # how far each other node is followed, as it was told last
        self._followers: Followers
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
        self._monotonic = monotonic
        self._group, self._calls = group, calls
        self._followers = Followers(self._reachable, monotonic)
        self._courier = Courier(node, incarnation, group, calls, monotonic, self._name_of, self.entry_versions.writable)
        calls.serve(METADATA, self._serve)
        calls.on_link(self._link_changed)

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

    def stand_still(self, why: str) -> None:
        """The machine cannot go on (Groups.on_halted): nothing is submitted that nobody here would see carried out."""
        self.halted = why
        if self._courier is not None:
            self._courier.close(self._stands_still())

    def _stands_still(self) -> str:
        return f"this node does not follow the catalog any more: {self.halted}. Update it and start it again"

    def leading_changed(self) -> None:
        if self._courier is not None and self.halted is None:
            self._courier.pump()

    def tick(self) -> None:
        self._keeper.tick()
        if self._courier is not None and self.halted is None:
            self._courier.tick()
            self._followers.look()

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
            halted=self.halted,
        )

    def flushed(self) -> Pending[None]:
        """Answered when everything that was applied is kept, and told."""
        pending: Pending[None] = Pending()
        self._flushing.append(pending)
        self._say_flushed()
        return pending

    def _say_flushed(self) -> None:
        if not self._flushing:
            return
        if not self._keeper.idle:
            self._keeper.on_idle.append(self._say_flushed)
        elif not self._untold:
            flushing, self._flushing = self._flushing, []
            for pending in flushing:
                pending.resolve(None)

    def close(self) -> None:
        """Keeps nothing more; wait for `flushed` first."""
        self.catalog.observer = None
        if self._courier is not None:
            self._courier.close()
            self._followers.close()
        self._keeper.close()

    # what the machine tells

    def met(self, version: int) -> None:
        self.entry_versions.met(version)

    def applied(self, outcomes: Sequence[CommandOutcome]) -> None:
        self._keeper.keep(outcomes, self._head())

    def replaced(self, before: Sequence[Record]) -> None:
        after = list(self.catalog.records())
        outcomes = [CommandOutcome(_SNAPSHOT, EntryFate.DONE, *told) for told in difference(before, after)]
        for node, (incarnation, number) in self.machine.position.sessions.items():
            outcomes.append(CommandOutcome(Origin(node, incarnation, number, 0), EntryFate.SKIPPED))
        self._keeper.keep_whole(after, outcomes, self._head())

    def _head(self) -> bytes:
        return encode_head(self.machine.position, self.catalog.head)

    def _kept(self, outcomes: Sequence[CommandOutcome]) -> None:
        self._untold.append(outcomes)
        if len(self._untold) == 1:
            begin(self.work, self._tell_kept())

    def _tell_kept(self) -> Steps:
        """Everything that is untold, in order: one commit may carry as much as 10,000 deletions."""
        begun = False
        while self._untold:
            outcomes = self._untold[0]
            for outcome in outcomes:
                if begun:
                    yield
                begun = True
                self._tell_of(outcome)
            if self._courier is not None:
                self._tell_who_submitted(outcomes)
                if any(self._is_mine(one.origin) and one.verdict is EntryFate.MISSED for one in outcomes):
                    self._courier.send_again()
            self._untold.popleft()
        self._say_flushed()

    def _tell_of(self, outcome: CommandOutcome) -> None:
        mine = self._is_mine(outcome.origin)
        if outcome.verdict is EntryFate.DONE:
            try:
                self._tell(outcome, mine)
            except Exception as error:  # what this node serves would not be what is declared any more
                self._untold.clear()
                self.on_failed(f"{type(outcome.command).__name__} was decided and cannot be followed: {error!r}")
                self._say_flushed()
                raise
        elif outcome.verdict is EntryFate.SKIPPED and mine and self._courier is not None:
            self._courier.overtaken(outcome.origin.number)

    def _is_mine(self, origin: Origin) -> bool:
        return origin.node == self._node and origin.incarnation == self._incarnation

    def _tell_who_submitted(self, outcomes: Sequence[CommandOutcome]) -> None:
        """The other nodes, how far theirs is followed here."""
        done = [one.origin for one in outcomes if one.verdict in (EntryFate.DONE, EntryFate.SKIPPED)]
        letters = {one.node: _FOLLOWS.pack(FOLLOWS, one.incarnation, one.number) for one in done}
        for node, letter in letters.items():
            if node not in (self._node, _SNAPSHOT.node):
                self._told[node] = letter
                self._calls.tell(node, METADATA, letter)

    def _link_changed(self, node: NodeId, is_there: bool) -> None:
        """What was said last may have been lost with the link before."""
        if not is_there:
            self._copies.forget(node)
        elif node in self._told:
            self._calls.tell(node, METADATA, self._told[node])

    def _tell(self, outcome: CommandOutcome, mine: bool) -> None:
        if outcome.error is None and outcome.command is not None:
            for on_applied in self._subscribers:
                on_applied(outcome.command, outcome.result)
        pending = self._courier.applied(outcome.origin.number) if mine and self._courier is not None else None
        if pending is not None:
            number = outcome.origin.number if outcome.error is None else 0
            self._followers.when_followed(number, partial(self._answer, pending, outcome))

    def _answer(self, pending: Pending[Any], outcome: CommandOutcome) -> None:
        if outcome.error is not None:
            pending.fail(outcome.error)
        else:
            pending.resolve(outcome.result)

    # steps

    def _submit(self, command: Command, *, patient: bool) -> Pending[Any]:
        unable = (
            self._keeper.failure or self._keeper.full or (self._stands_still() if self.halted is not None else None)
        )
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
        return self.audit.watched(command, self._courier.submit(encoded, self.when_and_who(), patient=patient))

    def _reachable(self) -> list[NodeId]:
        numbers = [record.number for record in self.catalog.nodes.values()]
        return [one for one in numbers if one != self._node and self._calls.connected(one) and self._group.trusts(one)]

    def _name_of(self, node: NodeId) -> str:
        record = self.catalog.node_of_number(node)
        return record.name if record is not None else f"node {node}"

    # what other nodes ask

    def _serve(self, node: NodeId, payload: bytes, answer: Answer | None) -> None:
        if answer is None:
            self._hear_that_it_follows(node, payload)
        elif payload[:1] == bytes((SUBMIT,)):
            self._serve_submit(node, decode_submit(payload), answer)
        elif payload[:1] == bytes((FETCH,)):
            self._serve_fetch(node, *decode_request(payload), answer)
        else:
            raise BadBytes(f"node {node} asks {payload[:1].hex() or 'nothing'} of the catalog, which is no request")

    def _hear_that_it_follows(self, node: NodeId, payload: bytes) -> None:
        if len(payload) != _FOLLOWS.size or payload[0] != FOLLOWS:
            raise BadBytes(f"node {node} tells {payload[:1].hex() or 'nothing'} of the catalog, which says nothing")
        _, incarnation, number = _FOLLOWS.unpack(payload)
        if incarnation == self._incarnation:
            self._followers.follows(node, number)

    def _serve_fetch(self, node: NodeId, number: int, offset: int, answer: Answer) -> None:
        def begin(error: RaftError | None) -> None:
            answer(
                NOT_TAKEN
                if error is not None
                else self._copies.begin(node, CatalogState(self.catalog, self.machine.position))
            )

        if number:
            answer(self._copies.piece(node, number, offset))
        else:
            self._group.read(begin)

    def _serve_submit(self, node: NodeId, entries: Sequence[bytes], answer: Answer) -> None:
        try:
            for entry in entries:
                check_submitted(node, entry)
        except RefusedCommand as error:  # every node would stop at it, now and at each start
            self.refusals += 1
            suppressed = self._refusals.may_log(str(node), self._monotonic())
            if suppressed is not None:
                logger.error(
                    "node %d submits what is not taken: %s (%d more since the last line)", node, error, suppressed
                )
            answer(NOT_TAKEN)
            return
        if self._group.leads:
            self._group.propose(entries, lambda _, error: answer(TAKEN if error is None else NOT_TAKEN))
        else:
            answer(NOT_TAKEN)


class RefusedCommand(ValueError):
    """What another node submits cannot be carried out by every node; the text says why."""


def check_submitted(node: NodeId, entry: bytes) -> None:
    """Raises RefusedCommand."""
    if len(entry) > COMMAND_BYTES_MAX + ENTRY_HEAD_BYTES_MAX:
        raise RefusedCommand(f"a command of {len(entry)} bytes, and at most {COMMAND_BYTES_MAX} can be kept")
    try:
        origin, command = decode_entry(entry)
        check_types(command)
    except (UnknownVersion, IllTyped) as error:
        raise RefusedCommand(str(error)) from error
    if origin.node != node:
        raise RefusedCommand(f"a {type(command).__name__} of node {origin.node}")
