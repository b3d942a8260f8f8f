"""The streams of one node. Fulfils broker.queues.queue_type.QueueType.

What any queue needs whose log is a group is in replicated/. Assembly: make it, `attach` it to the broker, add it as a kind, let
the broker recover, and call `tick` ten times a second.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial

from broker.catalog.policy import EffectiveArguments
from broker.errors import ResourceExhausted
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.queues.queue_type import Queue, QueueHost
from broker.records import QueueRecord
from raft.core.messages import NodeId
from replicated.busy_queues import CHECK_MS
from replicated.kind_parts import HostingNode, KindParts
from replicated.letters import AnswerStatus, MemberReport, refusal
from replicated.local_members import QUEUE_GROUPS
from replicated.peer_letters import KindOfLetters, OnAnswer
from replicated.ports import Payload
from replicated.stored_entries import StoredEntries
from storage.history.reader_progress import ReaderPlace
from storage.interval import Interval
from stream.chunks.published_parts import parts_of_run
from stream.group.chunk_reading import KEPT_BYTES_MAX, FoundPlace, ReadableLog, ReadingCaches, StreamReading
from stream.group.leading import StreamLeading
from stream.group.machine import StreamMachine, Written
from stream.group.member import StreamMember
from stream.group.reclaiming import Reclaiming
from stream.group.replica_log import ReplicaLog
from stream.group.stream_state import MACHINE_VERSION
from stream.leader_questions import answer_letter
from stream.publishing.node_publishing import WithoutLeader
from stream.publishing.publish_entries import check_said, done
from stream.queue import StreamQueue
from stream.queue_figures import report
from stream.reading.browsing import browse_member
from stream.reading.letters import StreamLetter, browsed, decode_browse, decode_place, place_answer
from stream.reading.readers import ReadingClient
from stream.reading.reading_share import ReadingShare
from stream.stream_places import StreamsPlaces

WAITING_BYTES_MAX = 32 << 20  # of all streams that have a leader; beyond it publishers are to be held
ENTRY_HEAD_BYTES_MAX = 1 << 10  # what a chunk entry has besides what its node published
STREAM_TOPIC = 6  # of PeerCalls
KIND = "stream"


class StreamQueues:
    """See the module. Everything belongs to the event loop's thread."""

    name = KIND

    def __init__(self, node: HostingNode, *, chunk_bytes_kept_max: int = KEPT_BYTES_MAX) -> None:
        self.queues: dict[int, StreamQueue] = {}  # by group
        self.refusals = 0  # to propose what other nodes publish, and by other nodes to propose what this one does
        self.skipped = 0  # messages that retention removed before a reader came to them
        self.undecodable = 0  # messages in sub-batches that could not be taken apart, each time that it was tried
        self._ports = ports = node.ports(STREAM_TOPIC)
        self._catalog = node.catalog
        self._reports = node.reports
        self._reader_progress = node.reader_progress
        self._caches = ReadingCaches(chunk_bytes_kept_max)
        self._share = ReadingShare(ports.loop, ports.monotonic)
        self._host: QueueHost
        self._checks = Interval(CHECK_MS)
        self._reclaiming = Reclaiming(self.queues.values)
        self._places = StreamsPlaces[StreamQueue](ports, node.catalog.name_of)
        self._without_leader = WithoutLeader()
        self._parts = parts = KindParts[StreamQueue](
            KIND, node, ports, self.queues, self._new_member, lambda: MACHINE_VERSION
        )
        self._busy = parts.busy
        self.verdicts = parts.verdicts
        self.members = parts.members
        self.administration = parts.administration
        letters = KindOfLetters(
            check_said,
            self._done,
            ENTRY_HEAD_BYTES_MAX,
            {StreamLetter.BROWSE: self._browsed},
            waits={
                StreamLetter.PLACE: self._place_for,
                StreamLetter.READ: self._read_for,
                StreamLetter.ASK: self._asked,
            },
        )
        parts.serve(letters, self._refused)
        node.calls.on_writable(self._has_room)

    def attach(self, host: QueueHost) -> None:
        """Before the first stream is opened."""
        self._host = host

    # QueueType

    def check(self, record: QueueRecord) -> None:
        """The catalog refuses what no replicated queue can be (broker/catalog/arguments.py)."""

    def open(self, record: QueueRecord, effective: EffectiveArguments, now: int) -> Queue:
        group = QUEUE_GROUPS + record.id
        queue = self.queues[group] = StreamQueue(
            record,
            effective,
            group,
            self._ports.incarnation,
            ports=self._ports,
            host=self._host,
            busy=self._busy,
            lead=self._lead,
            places=self._places,
            without_leader=self._without_leader,
            on_refused=lambda why: self._refused(queue, why),
            on_skipped=lambda count: self._skipped(queue, count),
            read=self._reading,
            share=self._share,
            on_left=lambda client, offset: self._reader_left(queue, client, offset),
        )
        self.members.take_part(queue)
        return queue

    def delete(self, queue: Queue, now: int) -> int:
        """A stream tells nobody how many messages it had."""
        assert isinstance(queue, StreamQueue), f"{queue!r} is no stream"
        queue.close()
        self._parts.forget(queue)
        return 0

    def publish(self, queues: Sequence[Queue], run: Run, receipt: Receipt | None, now: int) -> None:
        refused: ResourceExhausted | None = None
        parts = parts_of_run(run)  # for all of these streams
        for queue in queues:
            assert isinstance(queue, StreamQueue), f"{queue!r} is no stream"
            try:
                queue.publish(parts, receipt)
            except ResourceExhausted as error:
                refused = error
        if refused is not None:
            raise refused

    # Its streams.

    def _new_member(self, queue: StreamQueue, entries: StoredEntries) -> StreamMember:
        machine = StreamMachine()
        self._caches.forget(queue.group)
        log = ReplicaLog(machine, entries)
        return StreamMember(machine, self._reading(queue, log), queue)

    def _reading(self, queue: StreamQueue, log: ReadableLog) -> StreamReading:
        return StreamReading(queue.group, log, self._caches, partial(self._undecodable, queue))

    def _lead(self, queue: StreamQueue, member: StreamMember) -> StreamLeading:
        return StreamLeading(queue, member, self._ports, self._catalog, self.verdicts)

    @property
    def led(self) -> Collection[StreamQueue]:
        """Those that this node leads."""
        return self._busy.led

    def report(self, queue: StreamQueue) -> MemberReport | None:
        return report(queue)

    def reported(self, queue: StreamQueue, told: MemberReport) -> None:
        queue.reported(told)

    # Now and then.

    @property
    def congested(self) -> bool:
        """Whether publishers should pause: too much waits for leaders."""
        return self.waiting_bytes > WAITING_BYTES_MAX

    @property
    def waiting_bytes(self) -> int:
        """Said and not answered, by streams that have a leader."""
        return sum([queue.session.waiting_bytes for queue in self._busy.asking if queue.session.open])

    def tick(self, now: int) -> None:
        """Called some ten times a second."""
        self._busy.tick(now)
        self._reclaiming.tick(now)
        self._without_leader.waiting_bytes = sum([queue.session.waiting_bytes for queue in self._busy.looking])
        if self._checks.due(now):
            self._parts.check()
            self._places.check()
            if self._reader_progress is not None:
                self._reader_progress.tell(self._readers_moved())

    def _readers_moved(self) -> Iterator[ReaderPlace]:
        for queue in self.queues.values():
            for client, offset in queue.readers.moved():
                if client.actor is not None:
                    yield ReaderPlace(client.actor, queue.group, queue.record.name, offset)

    def _reader_left(self, queue: StreamQueue, client: ReadingClient, offset: int) -> None:
        if self._reader_progress is not None and client.actor is not None:
            self._reader_progress.left(ReaderPlace(client.actor, queue.group, queue.record.name, offset))

    def _skipped(self, queue: StreamQueue, count: int) -> None:
        self.skipped += count
        self._reports.on_not_delivered(queue, f"retention removed {count} messages before a reader here came to them")

    def _undecodable(self, queue: StreamQueue, count: int, why: str) -> None:
        self.undecodable += count
        self._reports.on_not_delivered(queue, why)

    # Other nodes.

    def _refused(self, queue: StreamQueue, why: str) -> None:
        """Something was not proposed, as it would do harm to every member."""
        self.refusals += 1
        self._reports.on_refused(queue, why)

    def _done(self, queue: StreamQueue, results: Sequence[Written]) -> Payload:
        return done(self._ports.node, results)

    def _asked(self, queue: StreamQueue, node: NodeId, letter: bytes, answer: OnAnswer) -> None:
        answer_letter(queue, letter, self._ports, answer)

    def _place_for(self, queue: StreamQueue, node: NodeId, letter: bytes, answer: OnAnswer) -> None:
        """Where a reader on another node begins."""
        spec = decode_place(letter)

        def tell(found: FoundPlace | None) -> None:
            refused = refusal(AnswerStatus.NOT_LEADER, queue.route.leader())
            answer(place_answer(self._ports.node, found) if found is not None else refused)

        here = queue.own_places.here(spec)
        if here is not None or not queue.route.leads:
            tell(here)
        else:
            queue.own_places.as_leader(spec, tell)

    def _read_for(self, queue: StreamQueue, node: NodeId, letter: bytes, answer: OnAnswer) -> None:
        """Chunks for readers on another node."""
        queue.serving.asked(node, letter, answer)
        if queue.serving:
            self._busy.ask(queue)

    def _has_room(self, node: NodeId) -> None:
        """The link to this node."""
        for queue in self._busy.asking:
            queue.serving.go_on()

    @staticmethod
    def _browsed(queue: StreamQueue | None, letter: bytes) -> Payload:
        begin, limit = decode_browse(letter)
        member = queue.readable_member if queue is not None else None
        if queue is None or member is None:
            return refusal(AnswerStatus.NO_GROUP, 0)
        return browsed(queue.route.leader(), browse_member(member, queue.record.name, begin, limit))
