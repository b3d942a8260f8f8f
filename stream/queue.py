"""One stream as this node sees it. Fulfils broker.queues.queue_type.Queue on every node, member of its group or not.

    session     what clients of this node publish: to the leader, wherever it is, through `route`
    readers     the consumers and stream clients of this node; each reads from its own place on: in the log of the member here,
                or of another node's where there is none, or it is far behind (stream/reading/far_log.py)
    serving     what other nodes' readers are given of the member here
    member      the stream's machine and log, if this node has them
    leading     what only the leader's node does; None elsewhere

What is published is confirmed when a majority of the members has fsynced it. Readers are given what is committed, and take
nothing away: what they settle gives them credit, and nothing else. They notice neither that the member here comes or goes, nor
that another node's does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from broker.actors import LogActor
from broker.catalog.policy import EffectiveArguments
from broker.errors import NotFound, NotSupported, PreconditionFailed, ResourceExhausted
from broker.messages.browsed import Browsed
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.pending import Pending
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Got, HeldSlice, Outcome, QueueHost, QueueStatistics, Slice
from broker.queues.stream_contract import (
    ChunkReader,
    OffsetSpec,
    PlacesWatcher,
    ReaderProgress,
    StreamFigures,
    StreamPlaces,
    StreamTracking,
)
from broker.records import QueueRecord
from raft.core.errors import Damaged
from raft.core.messages import NodeId, node_of
from replicated.busy_queues import BusyQueues
from replicated.leader_route import LeaderRoute
from replicated.letters import MemberReport
from replicated.member import MemberLife
from replicated.ports import MemberDriver, QueuePorts
from replicated.remote_serving import RemoteServing
from stream.chunks.published_parts import PublishedPart, numbered_run, parts_of_items
from stream.group.chunk_reading import FoundPlace, ReadableLog, StreamPlace, StreamReading
from stream.group.leading import StreamLeading
from stream.group.machine import Written
from stream.group.member import StreamMember
from stream.group.rules import rules_of
from stream.leader_questions import LeaderQuestions
from stream.publishing.node_publishing import NodePublishing, WithoutLeader
from stream.publishing.offset_stores import OffsetStores
from stream.publishing.publish_entries import PublishEntries
from stream.queue_figures import (
    ReadingFigures,
    details,
    fill_in_sizes,
    for_operators,
    reading_figures,
    stream_figures,
    tracking_of,
)
from stream.reading.beginnings import Beginnings
from stream.reading.browsing import browse
from stream.reading.chunk_subscription import ChunkSubscription
from stream.reading.consumer_looks import ConsumerLooks
from stream.reading.far_count import FarCount
from stream.reading.far_log import FarLog
from stream.reading.letters import AskedOfLeader, Skip
from stream.reading.offset_spec import offset_spec
from stream.reading.own_places import OwnPlaces
from stream.reading.reader import StreamReader
from stream.reading.readers import PlacedReader, ReadingClient, StreamEnd, StreamReaders
from stream.reading.reading_share import ReadingShare
from stream.reading.serving import ChunkServing
from stream.stream_places import StreamsPlaces
from wire.stream.publish_frame import StreamRun

BEHIND_ENTRIES_MAX = 256  # of the member here, before its readers read elsewhere: it has these soon


class StreamQueue:
    """See the module."""

    def __init__(
        self,
        record: QueueRecord,
        effective: EffectiveArguments,
        group: int,
        incarnation: int,
        *,
        ports: QueuePorts,
        host: QueueHost,
        busy: BusyQueues[StreamQueue],
        lead: Callable[[StreamQueue, StreamMember], StreamLeading],
        places: StreamsPlaces[StreamQueue],
        without_leader: WithoutLeader,
        on_refused: Callable[[str], None],
        on_skipped: Callable[[int], None],
        read: Callable[[StreamQueue, ReadableLog], StreamReading],
        share: ReadingShare,
        on_left: Callable[[ReadingClient, int], None],
    ) -> None:
        """`lead` makes what the leader's node does for it. `on_refused` is told what was not proposed, and why; `on_skipped`
        how many messages retention removed before a reader came to them. `read` makes what reads a log of the stream, within
        `share`. `on_left`: see StreamReaders."""
        self.record = record
        self.group = group
        self.deleted = False
        self.rules = rules_of(effective)
        self.entries = PublishEntries(ports.wall_ms, on_refused)
        self.route = LeaderRoute(group, ports, self.member_nodes, self.entries)
        self.publishing = NodePublishing(
            ports.node,
            incarnation,
            self.rules.filter_bytes,
            route=self.route,
            without_leader=without_leader,
            keep_asking=partial(busy.ask, self),
            look_for_leader=partial(busy.look_for_leader, self),
        )
        self.session = self.publishing.session
        self.member: StreamMember | None = None
        self.leading: StreamLeading | None = None
        self.remote_serving: RemoteServing | None = None
        self.member_life = MemberLife.ABSENT
        self.quarantined: str | None = None  # why this node's member takes no part, though its group counts on it
        self.readers = StreamReaders(on_skipped, on_left)
        self._looks = ConsumerLooks(self, self.readers, host)
        self.own_places = OwnPlaces(self, ports.groups)
        self._beginnings = Beginnings(self, ports)
        self._stores = OffsetStores(self.route, ports)
        self._questions = LeaderQuestions(self, self._stores, ports)
        self._places = places
        self._ports = ports
        self._host = host
        self._share = share
        self._busy = busy
        self._new_leading = lead
        self._times_led = 0
        self.serving = ChunkServing(self, ports)
        self._far_log = FarLog(self, ports, self._news)
        self._far = read(self, self._far_log)
        self.far_count = FarCount()
        self._statistics = QueueStatistics()

    # Where it is.

    def member_nodes(self) -> Sequence[NodeId]:
        return [node_of(member) for member in self.record.members]

    def joined(self, driver: MemberDriver, member: StreamMember) -> None:
        self.route.driver = driver
        self.member = member
        self.quarantined = None
        self._news()

    @property
    def readable_member(self) -> StreamMember | None:
        """The one here, when what its machine names can be read."""
        return self.member if self.route.can_read_here else None

    def left(self) -> None:
        """Those who read here go on at another node's member."""
        self._lead(False)
        self.route.driver = self.member = None
        self.serving.end()
        self._news()

    def leading_changed(self) -> None:
        self._lead(self.route.leads)
        self.try_again()

    def _lead(self, leads: bool) -> None:
        if self.leading is not None:
            self.leading.end()
            self.leading = None
        if leads and not self.deleted:
            assert self.member is not None, f"{self.record.name} is led from here, without a member"
            self.leading = self._new_leading(self, self.member)
            self.leading.begin()
            self._times_led += 1
        self.entries.leading = self.leading

    def try_again(self) -> None:
        """Somebody may be there to talk to."""
        if not self.deleted and self.route.look_for():
            self.publishing.leader_may_be_there()

    @property
    def finds_no_leader(self) -> bool:
        """Whether something waits for one to be found."""
        return not (self.deleted or self.session.open)

    # What the contract asks.

    @property
    def ready_count(self) -> int:
        return self.member.machine.state.message_count if self.member is not None else self.far_count.messages

    @property
    def consumer_count(self) -> int:
        """Of this node."""
        return len(self.readers)

    def consume(self, consumer: Consumer, now: int) -> Pending[None] | None:
        spec = self._checked(consumer, now)
        return self._begin(consumer, spec, now, partial(StreamReader, self, consumer))

    def _begin(
        self, client: ReadingClient, spec: OffsetSpec, now: int, read_for: Callable[[StreamPlace], PlacedReader]
    ) -> Pending[None] | None:
        def begin(found: FoundPlace | None) -> None:
            if self.deleted:
                raise NotFound(f"{self._named()} was deleted")
            if found is not None:
                self.readers.add(client, read_for(found.place))
                self._host.wake(self)

        begun = self._find(client, spec, now).map(begin)
        return None if begun.answered and begun.error is None else begun

    def _find(self, who: object, spec: OffsetSpec, now: int) -> Pending[FoundPlace | None]:
        found = self._beginnings.find(who, spec, self._host, self.record.label)
        if not found.answered:
            self._busy.ask(self)
        return found

    def _checked(self, consumer: Consumer, now: int) -> OffsetSpec:
        if consumer.no_ack:
            raise NotSupported(f"automatic acknowledgement not supported by {self._named()}")
        if not consumer.window:
            raise PreconditionFailed(f"consumer prefetch count is not set for {self._named('stream queue')}")
        return self._spec(consumer.arguments.get("x-stream-offset"), now)

    def _spec(self, asked: object, now: int) -> OffsetSpec:
        spec = offset_spec(asked, now)
        if spec is None:
            raise PreconditionFailed(
                f"invalid arg 'x-stream-offset' for {self.record.label}: {asked!r} is neither an offset nor a timestamp, "
                f"first, last, next, or an age as 5m"
            )
        return spec

    def _named(self, what: str = "stream") -> str:
        return f"{what} '{self.record.name}' in vhost '{self.record.vhost}'"

    def cancel(self, consumer: Consumer, now: int) -> None:
        self._leave(consumer)

    def _leave(self, client: ReadingClient) -> None:
        self._beginnings.leave(client)
        self.readers.leave(client)
        if not self.readers:
            self._far_log.rest()

    def get(self, no_ack: bool, now: int, by: LogActor | None = None) -> Pending[Got | None]:
        raise NotSupported(f"basic.get not supported by stream queues {self.record.label}")

    def settle(self, piece: Slice, outcome: Outcome, now: int) -> None:
        """However it comes back: its reader has room for as many others."""
        if outcome is Outcome.ACKNOWLEDGED:
            self._statistics.acknowledged += piece.count
        if not self.deleted:
            self.readers.ready(piece.handle)
            self._host.wake(self)

    def settle_all(self, held: Sequence[HeldSlice], outcome: Outcome, now: int) -> None:
        if not self.deleted:
            self._host.wake(self)

    def pump(self, now: int) -> None:
        if self.deleted:
            return
        self.session.flush()
        self._stores.flush()
        self._looks.look()
        self._read()

    def _reading_at(self, place: StreamPlace) -> StreamReading:
        member = self.readable_member
        if member is not None and place.entry_index <= member.machine.applied + BEHIND_ENTRIES_MAX:
            return member.reading
        self._busy.ask(self)
        return self._far

    def _news(self) -> None:
        """Readers may find more, or find it elsewhere."""
        self.readers.news()
        self._host.wake(self)

    def _read(self) -> None:
        if not self.readers:
            return
        share, more = self._share, True
        came_too_late = share.is_used_up
        try:
            more = came_too_late or self.readers.read(self._reading_at, share)
        except Damaged as damage:  # it leaves, to be repaired, and its readers read elsewhere
            self._ports.groups.damaged(self.group, damage)
        if more and self.readers:  # in the next round: others come first
            share.wait(self._read_on, first=came_too_late)

    def _read_on(self) -> None:
        if not self.deleted:
            self._host.wake(self)

    # Stream clients.

    def check_readable(self) -> None:
        if self.member is None and not self._far_log.can_be_read:
            raise ResourceExhausted(f"{self._named()} has no member on a node that can be reached")

    def attach(self, reader: ChunkReader, spec: OffsetSpec, now: int) -> Pending[None] | None:
        self.check_readable()
        return self._begin(reader, spec, now, partial(ChunkSubscription, reader))

    def detach(self, reader: ChunkReader) -> None:
        self._leave(reader)

    def reader_ready(self, reader: ChunkReader) -> None:
        if not self.deleted:
            self.readers.ready(reader)
            self._host.wake(self)

    def resolve(self, spec: OffsetSpec, now: int) -> Pending[int]:
        self.check_readable()
        return self._find(object(), spec, now).map(self._chunk_of)

    def _chunk_of(self, found: FoundPlace | None) -> int:
        if found is None:
            raise ResourceExhausted(f"{self._named()} cannot be read here any more")
        return found.chunk

    def used(self, now: int) -> Pending[None] | None:
        """A stream does not expire. Where nobody can be asked how much it has, what was known here last has to do."""
        if self.member is not None or self.deleted or not self.route.look_for():
            return None
        return self.far_count.ask(partial(self._find_now, now))

    def reported(self, told: MemberReport) -> None:
        """By the node of a member, where this one has none."""
        self.far_count.messages, self.far_count.bytes = told.ready, told.ready_bytes

    def _find_now(self, now: int, spec: OffsetSpec) -> Pending[FoundPlace | None]:
        return self._find(object(), spec, now)

    def browse(self, skip: int, limit: int, now: int) -> Pending[list[Browsed]]:
        return browse(self, self._ports, self._host, Skip(skip), limit, now)

    def browse_from(self, asked: object, limit: int, now: int) -> Pending[list[Browsed]]:
        return browse(self, self._ports, self._host, self._spec(asked, now), limit, now)

    def publish_numbered(self, reference: str, first_number: int, run: Run, receipt: Receipt) -> None:
        self.publish_items(reference, numbered_run(first_number, run), receipt)

    def purge(self, now: int, by: LogActor | None = None) -> Pending[int]:
        raise NotSupported(f"queue.purge not supported by stream queues {self.record.label}")

    def policy_changed(self, effective: EffectiveArguments, now: int) -> None:
        self.rules = rules_of(effective)
        self.session.filter_bytes = self.rules.filter_bytes

    @property
    def accounted_here(self) -> bool:
        return self.route.leads

    @property
    def is_starving(self) -> bool:
        return False  # its consumers read what is there, whoever else does

    def counts(self) -> QueueStatistics:
        found = self._statistics
        found.published, found.ready = self.publishing.published, self.ready_count
        found.delivered, found.unacknowledged = self.readers.delivered, self.readers.held
        return found

    def statistics(self) -> QueueStatistics:
        return self.sizes().with_details(details(self))

    def sizes(self) -> QueueStatistics:
        return fill_in_sizes(self.counts(), self)

    @property
    def end(self) -> StreamEnd:
        if self.member is None:
            return StreamEnd(self._far_log.next_offset, 0)
        return StreamEnd(self.member.machine.state.next_offset, self.member.machine.state.time_ms)

    def progress(self, reader: ChunkReader) -> ReaderProgress | None:
        return self.readers.progress(reader, self.end)

    def reading_figures(self) -> ReadingFigures:
        return reading_figures(self)

    def figures(self) -> dict[str, Any]:
        """For operators."""
        return for_operators(self)

    # Publishing, as the driver does it.

    def publish(self, parts: Sequence[PublishedPart], receipt: Receipt | None) -> None:
        """Raises ResourceExhausted when it can not be kept, and nobody asked for a receipt."""
        if self.deleted:
            if receipt is not None:
                receipt.accepted()
            return
        self._share.published(member_here=self.member is not None)
        try:
            self.publishing.publish(parts, receipt, self.record.label)
        except ResourceExhausted:
            if receipt is None:
                raise
            receipt.refused()
        else:
            self._host.wake(self)

    def close(self) -> None:
        """The stream is deleted."""
        self.deleted = True
        self._lead(False)
        self.publishing.close()
        self._stores.close()
        self._questions.close(NotFound(f"{self.record.label} was deleted"))
        self._beginnings.leave_all()
        self.readers.leave_all()
        self.serving.end()
        self._far_log.rest()
        self._places.gone(self)

    def still_asks(self) -> bool:
        said = [self.publishing.go_on(), self._stores.go_on(), self._questions.go_on()]
        read = [self._beginnings.go_on(), self._far_log.go_on(), self.serving.go_on()]
        return any(said) or any(read)

    # StreamContract: publishing, stored offsets, places

    def publish_items(self, reference: str, run: StreamRun, receipt: Receipt) -> None:
        if self.deleted:
            receipt.accepted()
            return
        self._share.published(member_here=self.member is not None)
        self.publishing.publish(parts_of_items(reference, run), receipt, self.record.label)
        self._host.wake(self)

    def publisher_sequence(self, reference: str, now: int) -> Pending[int]:
        return self._ask(AskedOfLeader.LAST_ID, reference, now).map(lambda last: last or 0)

    def store_offset(self, reference: str, offset: int, now: int) -> None:
        if not self.deleted:
            self._stores.store(reference, offset)
            self._busy.ask(self)
            self._host.wake(self)

    def query_offset(self, reference: str, now: int) -> Pending[int | None]:
        return self._ask(AskedOfLeader.STORED_OFFSET, reference, now)

    def _ask(self, wanted: AskedOfLeader, name: str, now: int) -> Pending[int | None]:
        self._busy.ask(self)
        return self._questions.ask(wanted, name, self._host, self.record.label)

    def stream_figures(self) -> StreamFigures:
        return stream_figures(self)

    def tracking(self) -> StreamTracking | None:
        return None if self.member is None else tracking_of(self.member)

    def places(self) -> StreamPlaces:
        return self._places.of(self)

    def times_led(self) -> int:
        return self._times_led if self.leading is not None and self.route.leads else 0

    def watch(self, watcher: PlacesWatcher) -> None:
        self._places.watch(self, watcher)

    def unwatch(self, watcher: PlacesWatcher) -> None:
        self._places.unwatch(self, watcher)

    # StreamFollower, of the member

    def moved(self, written: Sequence[Written]) -> None:
        if self.leading is not None and Written.OUT_OF_PLACE in written:
            self.leading.out_of_place()
        if self.readers:
            self._news()
        if self._beginnings:
            self._ports.loop.call_soon(self._beginnings.go_on)
        if self.serving:
            self._ports.loop.call_soon(self.serving.go_on)
        self._share.committed()
