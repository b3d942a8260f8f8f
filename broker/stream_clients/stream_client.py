"""One stream client: what it publishes, what it reads, what it asks.

Where a request may be refused for several reasons, the user's permission is looked at first. Confirms are handed over at the
end of a turn. Streams that the client uses are watched: when one is deleted, or led from elsewhere while the client publishes
to it, the client loses its publishers and subscriptions of that stream, and is told.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.alarms import DISK_ALARM
from broker.catalog.permissions import Access
from broker.client_connection import Connection
from broker.counting.counters import Counters
from broker.errors import AccessRefused, BrokerError, NotAllowed, PreconditionFailed, ResourceExhausted
from broker.node_queues import NodeQueues
from broker.pending import Pending
from broker.queues.stream_contract import OffsetSpec, StreamContract
from broker.records import Arguments
from broker.session.topology import Topology
from broker.stream_clients.client_reader import ClientReader, place_of
from broker.stream_clients.client_terms import ReadOptions, StreamLocation, StreamSink
from broker.stream_clients.consumer_groups import GroupConsumer, GroupKey
from broker.stream_clients.node_groups import NodeGroups
from broker.stream_clients.stream_access import StreamAccess
from broker.stream_clients.stream_directory import AddressOf, StreamDirectory
from broker.stream_clients.stream_publisher import StreamPublisher
from broker.stream_clients.super_streams import SuperStreams
from wire.stream.command_fields import OffsetSpec as RequestedOffset
from wire.stream.publish_frame import StreamRun


class StreamClient:
    """See the module. Numbers of publishers and subscriptions are the client's; who calls has checked them."""

    def __init__(
        self,
        broker: NodeQueues,
        connection: Connection,
        sink: StreamSink,
        groups: NodeGroups,
        address_of: AddressOf,
        on_closed: Callable[[StreamClient], None],
    ) -> None:
        self.connection = connection
        self.counters = Counters()
        self._sizes = broker.message_sizes[connection.protocol]
        self.publishers: dict[int, StreamPublisher] = {}
        self.subscriptions: dict[int, ClientReader] = {}
        self._broker = broker
        self._sink = sink
        self._vhost = connection.vhost
        self._groups = groups
        self._on_closed = on_closed
        self._access = StreamAccess(broker, connection)
        topology = Topology(broker, connection)
        self._directory = StreamDirectory(broker, self._access, topology, self._vhost, address_of)
        self._super_streams = SuperStreams(broker, topology, self._directory, self._vhost)
        self._leaders: dict[StreamContract, str] = {}  # of the streams it uses, as they were known last
        self._in_groups: dict[ClientReader, tuple[GroupKey, GroupConsumer]] = {}
        self._answered: dict[StreamPublisher, None] = {}  # have something to take
        self.closed = False

    # ------------------------------------------------------------------------- publishing

    @property
    def disk_alarm(self) -> bool:
        """Nobody may begin to publish now."""
        return self._broker.alarms.reason_of(DISK_ALARM) is not None

    def declare_publisher(self, publisher: int, reference: str, stream: str, now: int) -> Pending[None]:
        """An empty reference is none: nothing is recognised that comes again."""
        queue = self._access.stream("write", stream)
        self.publishers[publisher] = StreamPublisher(publisher, reference, queue, self._note_answered)
        self._watch(queue)
        return Pending.of(None)

    def delete_publisher(self, publisher: int, now: int) -> None:
        """What it has published is stored, and not confirmed any more; its number may be declared again."""
        self._forget_publisher(self.publishers[publisher])

    def _forget_publisher(self, publisher: StreamPublisher) -> None:
        del self.publishers[publisher.number]
        self._unwatch_unused(publisher.queue)

    def publish(self, publisher: int, run: StreamRun, now: int) -> Pending[None] | None:
        """Confirmed later, or refused; or an error is raised, and nothing of the run is stored. None: the next may follow at
        once; otherwise when this is answered."""
        if not self.connection.publishes or self._broker.alarms.blocked_reason is not None:
            self.connection.note_publishing(self._broker.alarms.reason_of(DISK_ALARM))
        self.publishers[publisher].publish(run)
        counters = self.counters
        counters.published += run.message_count
        counters.published_confirm += run.message_count
        counters.routed += run.message_count
        self._sizes.add(run.message_count, len(run.items))
        rates, connection = self._broker.rates, self.connection
        if not rates.limited:
            return None
        return rates.charge(connection.vhost, connection.user, run.message_count, len(run.items), lambda: self.closed)

    def _note_answered(self, publisher: StreamPublisher) -> None:
        self._answered[publisher] = None
        self._broker.turns.confirm(self)

    def flush_confirms(self) -> None:
        """Tell the client what was answered. Called at the end of a turn."""
        answered, self._answered = self._answered, {}
        for publisher in answered:
            if self.publishers.get(publisher.number) is publisher:
                self._hand_over(publisher)

    def _hand_over(self, publisher: StreamPublisher) -> None:
        for stored, ids, message_count in publisher.take():
            if stored:
                self.counters.confirmed += message_count
                publisher.confirmed += message_count
                self._sink.confirm(publisher.number, ids)
            else:
                self.counters.refused += message_count
                publisher.refused += message_count
                text = f"{publisher.queue.record.label} has not stored it"
                self._sink.refuse_publish(publisher.number, ids, ResourceExhausted(text))

    def publisher_sequence(self, reference: str, stream: str, now: int) -> Pending[int]:
        """The last publishing id; 0 when it has published nothing."""
        return self._access.stream("read", stream).publisher_sequence(reference, now)

    # ------------------------------------------------------------------------- reading

    def check_readable(self, stream: str) -> None:
        """Raises AccessRefused, NotFound, ResourceExhausted when it can not be read on this node."""
        self._access.stream("read", stream).check_readable()

    def subscribe(
        self, subscription: int, stream: str, offset: RequestedOffset, options: ReadOptions, now: int
    ) -> Pending[None]:
        """Delivers and activates nothing before `start`."""
        queue = self._access.stream("read", stream)
        spec = _asked_for(offset)
        reader = ClientReader(
            subscription,
            queue,
            spec,
            options,
            self._sink,
            self.connection.actor,
            on_delivered=self._delivered,
            on_unavailable=self._lose_reader,
        )
        asked = None
        if options.single_active:
            self._join(reader)
        else:
            asked = queue.attach(reader, spec, now)
        self.subscriptions[subscription] = reader
        self._watch(queue)
        return Pending.of(None) if asked is None else self._subscribed_later(reader, asked)

    def _subscribed_later(self, reader: ClientReader, asked: Pending[None]) -> Pending[None]:
        answer = reader.answer = Pending()

        def attached(_: None) -> None:
            if reader.answer is not None:
                reader.answer = None
                answer.resolve(None)

        def refused(error: BrokerError) -> None:
            if reader.answer is not None:
                reader.answer = None
                self._forget_subscription(reader)
                answer.fail(error)

        asked.then(attached, refused)
        return answer

    def start(self, subscription: int, credit: int, now: int) -> None:
        """The client knows that it is subscribed."""
        reader = self.subscriptions[subscription]
        reader.granted += credit
        place = self._in_groups.get(reader)
        if place is not None:
            self._groups.started(*place)
        else:
            reader.queue.reader_ready(reader)

    def add_credit(self, subscription: int, credit: int, now: int) -> None:
        """So many chunks more; counted also while it is not the active one."""
        reader = self.subscriptions[subscription]
        reader.granted += credit
        if reader.active:
            reader.queue.reader_ready(reader)

    def unsubscribe(self, subscription: int, now: int) -> None:
        """Nothing is delivered any more; its number may be used again."""
        self._forget_subscription(self.subscriptions[subscription])

    def _forget_subscription(self, reader: ClientReader) -> None:
        del self.subscriptions[reader.number]
        reader.queue.detach(reader)
        self._unwatch_unused(reader.queue)
        place = self._in_groups.pop(reader, None)
        if place is not None:
            self._groups.leave(*place)

    def resume(self, now: int) -> None:
        """The sink is writable again."""
        for reader in self.subscriptions.values():
            if reader.active:
                reader.queue.reader_ready(reader)

    def _delivered(self, message_count: int) -> None:
        self.counters.delivered_no_ack += message_count

    # ------------------------------------------------------------------------- groups

    def _join(self, reader: ClientReader) -> None:
        options, stream = reader.options, reader.queue.record.name

        def tell(active: bool) -> None:
            if self.closed:
                return  # it leaves next: another consumer of this client in the group just did
            if not active:
                reader.active = False
                reader.queue.detach(reader)
            self._sink.activate(reader.number, active)

        key = GroupKey(self._vhost, stream, options.name)
        index = self._super_streams.partition_index(options.super_stream, stream)
        self._in_groups[reader] = (key, self._groups.join(key, index, tell))

    def consumer_updated(self, subscription: int, active: bool, offset: RequestedOffset, now: int) -> None:
        """The client knows what `activate` has said; when active, it wants to begin at this offset."""
        reader = self.subscriptions[subscription]
        place = self._in_groups[reader]
        if active:
            reader.active = True
            self._attach_active(reader, place_of(offset) or reader.spec, now)
        if reader in self._in_groups:
            self._groups.answered(*place)

    def _attach_active(self, reader: ClientReader, spec: OffsetSpec, now: int) -> None:
        """There is no answer that could refuse it: a stream that cannot be read is one that went."""

        def refused(_: BrokerError) -> None:
            self._lose_reader(reader)

        try:
            asked = reader.queue.attach(reader, spec, now)
        except BrokerError as error:
            refused(error)
            return
        if asked is not None:
            asked.then(lambda _: None, refused)

    # ------------------------------------------------------------------------- offsets

    def store_offset(self, reference: str, stream: str, offset: int, now: int) -> None:
        """Nobody is told whether it could be."""
        self._access.stream("read", stream).store_offset(reference, offset, now)

    def query_offset(self, reference: str, stream: str, now: int) -> Pending[int | None]:
        """What was stored, by this client too; None: nothing."""
        return self._access.stream("read", stream).query_offset(reference, now)

    def resolve_offset(self, stream: str, offset: RequestedOffset, options: ReadOptions, now: int) -> Pending[int]:
        """Where a reader would begin."""
        queue = self._access.stream("read", stream)
        return queue.resolve(_asked_for(offset), now)

    # ------------------------------------------------------------------------- streams

    def create_stream(self, stream: str, arguments: Arguments, now: int) -> Pending[bool]:
        """Arguments as queue.declare has them. False: it was there, and is the same."""
        return self._directory.create(stream, arguments, now)

    def delete_stream(self, stream: str, now: int) -> Pending[None]:
        """Who uses it is told by `stream_unavailable`."""
        return self._directory.delete(stream, now)

    def create_super_stream(
        self, name: str, partitions: tuple[str, ...], binding_keys: tuple[str, ...], arguments: Arguments, now: int
    ) -> Pending[bool]:
        """All or nothing. False: it, or one of its partitions, was there."""
        return self._super_streams.create(name, partitions, binding_keys, arguments, now)

    def delete_super_stream(self, name: str, now: int) -> Pending[None]:
        """With its partitions."""
        return self._super_streams.delete(name, now)

    def locate(self, streams: tuple[str, ...], now: int) -> Pending[list[StreamLocation | BrokerError]]:
        """For each stream where it is, or why that is not said."""
        return self._directory.locate(streams)

    def route(self, routing_key: str, super_stream: str, now: int) -> Pending[tuple[str, ...]]:
        """The partitions that are bound with this key."""
        return Pending.of(self._super_streams.route(routing_key, super_stream))

    def partitions(self, super_stream: str, now: int) -> Pending[tuple[str, ...]]:
        """All of them, in their order."""
        return Pending.of(self._super_streams.partitions(super_stream))

    def figures(self, stream: str, now: int) -> Pending[dict[str, int]]:
        """By the names that the protocol gives them; -1 for what an empty stream does not have."""
        return Pending.of(self._directory.figures(stream))

    # ------------------------------------------------------------------------- streams that go

    def _watch(self, queue: StreamContract) -> None:
        if queue not in self._leaders:
            self._leaders[queue] = queue.places().leader
            queue.watch(self)

    def _unwatch_unused(self, queue: StreamContract) -> None:
        if queue in self._leaders and not self._uses(queue):
            del self._leaders[queue]
            queue.unwatch(self)

    def _uses(self, queue: StreamContract) -> bool:
        return self._publishes_to(queue) or any(one.queue is queue for one in self.subscriptions.values())

    def _publishes_to(self, queue: StreamContract) -> bool:
        return any(one.queue is queue for one in self.publishers.values())

    def stream_moved(self, queue: StreamContract) -> None:
        """PlacesWatcher. A client that only reads goes on where it is; that a leader is found after a time without one, or is
        missing for a time, is no reason to go elsewhere."""
        if queue not in self._leaders:
            return
        if not self._broker.is_open(queue):
            self._lose(queue)
            return
        before, leader = self._leaders[queue], queue.places().leader
        self._leaders[queue] = leader or before
        if leader and before not in ("", leader) and self._publishes_to(queue):
            self._lose(queue)

    def _lose_reader(self, reader: ClientReader) -> None:
        if self.subscriptions.get(reader.number) is reader:
            self._lose(reader.queue)

    def _lose(self, queue: StreamContract) -> None:
        """Its publishers and subscriptions are gone, also one whose answer is pending."""
        for publisher in [one for one in self.publishers.values() if one.queue is queue]:
            self._hand_over(publisher)
            self._forget_publisher(publisher)
        unanswered: list[Pending[None]] = []
        for reader in [one for one in self.subscriptions.values() if one.queue is queue]:
            if reader.answer is not None:
                unanswered.append(reader.answer)
                reader.answer = None
            self._forget_subscription(reader)
        self._sink.stream_unavailable(queue.record.name)
        for answer in unanswered:
            answer.fail(ResourceExhausted(f"{queue.record.label} went meanwhile"))

    # ------------------------------------------------------------------------- the end

    def permissions_changed(self, now: int) -> None:
        """The client has proved anew who it is, or its rights have changed. Raises NotAllowed when it may not use its virtual
        host any more."""
        if not self._access.may_enter():
            raise NotAllowed(f"access to vhost '{self._vhost}' refused for user '{self.connection.user}'")
        for publisher in self.publishers.values():
            publisher.refusal = self._refusal(publisher.queue)
        unreadable = {one.queue: None for one in self.subscriptions.values() if not self._may("read", one.queue)}
        for queue in unreadable:
            self._lose(queue)

    def _refusal(self, queue: StreamContract) -> BrokerError | None:
        if self._may("write", queue):
            return None
        return AccessRefused(f"write access to {queue.record.label} refused for user '{self.connection.user}'")

    def _may(self, access: Access, queue: StreamContract) -> bool:
        return self._access.may(access, queue.record.name)

    def close(self, now: int) -> None:
        """The client is gone: its publishers and subscriptions are, and nothing is said to its sink any more."""
        if self.closed:
            return
        self.closed = True
        for publisher in list(self.publishers.values()):
            self._forget_publisher(publisher)
        for reader in list(self.subscriptions.values()):
            reader.answer = None
            self._forget_subscription(reader)
        self._broker.turns.forget_publisher(self)
        self._on_closed(self)


def _asked_for(offset: RequestedOffset) -> OffsetSpec:
    spec = place_of(offset)
    if spec is None:
        raise PreconditionFailed("a reader begins somewhere")
    return spec
