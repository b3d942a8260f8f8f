"""One session in this node's broker, for a link: what links/amqp/conversation.py is with another broker, without frames.

The same Steps come first, answered by the session; then the user hears the same events in the same words. Runs pass whole:
what a queue hands out is told as one Delivered for all messages that agree, and what is published is one run for each such
part.

The link logs in with user and password as any client does, and has that user's rights: operators list, limit and close its
connection. What the session says is passed on at the end of the turn, when clients are written to: so nothing is published
from within the deliveries of a queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from broker.actors import GoneReason
from broker.client_connection import Connection
from broker.errors import BrokerError
from broker.login.client_address import ClientAddress
from broker.messages.expiration import expiration_ms
from broker.messages.message import Run
from broker.pending import Pending
from broker.queues.added_headers import with_added
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Slice
from broker.records import UserRecord
from broker.reply_codes import code_of, reply_text
from broker.session.session import Session
from links.amqp.conversation import CANCELLED, ChannelRefused, ConversationUser, Request, Steps
from links.amqp.events import Blocked, Confirmed, Delivered, Flow, PublishReturned
from links.amqp.opening import ClientTerms
from links.world import LinkClock
from native.alike import alike_runs
from native.content import messages
from native.frame_split import FrameError
from wire.amqp.tables import decode_table, encode_table

if TYPE_CHECKING:
    from broker.broker import Broker

PROTOCOL = "Direct 0-9-1"  # RabbitMQ's name for it
CHANNEL: Final = 1
UNTOLD_BYTES_MAX = 1 << 20  # of deliveries in one turn; the queue goes on in the next
HERE = ClientAddress("127.0.0.1", 0, True, PROTOCOL)

Said = Delivered | Confirmed | PublishReturned | Blocked | Flow


class LocalConversation:
    """See the module. Fulfils SessionSink and ClientOutput. `open` it once."""

    def __init__(
        self,
        broker: Broker,
        terms: ClientTerms,
        connection_id: str,
        steps: Steps,
        clock: LinkClock,
        user: ConversationUser,
        on_closed: Callable[[LocalConversation], None] = lambda one: None,
    ) -> None:
        """`connection_id`: unique in this process."""
        self._broker = broker
        self._terms = terms
        self._id = connection_id
        self._steps = steps
        self._clock = clock
        self._user = user
        self._on_closed = on_closed
        self._connection: Connection | None = None
        self._session: Session | None = None
        self._said: list[Said] = []
        self._untold_bytes = 0
        self._under_way: Pending[None] | None = None  # the last publishes for which the broker wants to be waited for
        self._waits = 0  # for so many of them; each run that comes too fast has an answer of its own
        self._is_held = False  # with all who publish
        self._may_publish = True  # as the user was told last
        self._is_ready = self._is_paused = self._is_over = False
        self._ended_because: str | None = None

    # ------------------------------------------------------------------------- life

    def open(self) -> None:
        login = self._broker.authenticate(self._terms.user, self._terms.password.encode(), HERE)
        login.then(self._logged_in, self._refused)

    def _logged_in(self, login: UserRecord) -> None:
        if self._is_over:
            return
        now = self._clock.wall_ms()
        self._connection = Connection(
            id=self._id,
            name=f"{self._terms.properties['connection_name']} ({self._id})",
            user=login.name,
            login=login,
            vhost=self._terms.vhost,
            protocol=PROTOCOL,
            client_properties=self._terms.properties,
            connected_at=now,
            close=self._refused,
            set_blocked=lambda reason: self._say(Blocked(reason)),
            statistics=dict,
        )
        try:
            self._broker.open_connection(self._connection, now)
            self._session = self._broker.open_session(self._connection, self, now)
        except BrokerError as error:
            self._refused(error)
        else:
            self._advance(lambda: self._steps.send(None))

    def close(self) -> None:
        """The user is told nothing any more."""
        self._is_over = True
        self._on_closed(self)
        self._steps.close()
        self._said.clear()
        if self._connection is not None:
            self._connection.left = GoneReason.CLOSED
            self._broker.connection_closed(self._connection, self._clock.wall_ms())

    def _refused(self, error: BrokerError) -> None:
        code = code_of(error)
        self._fail(f"{code} {reply_text(code, error.text)}")

    def _fail(self, reason: str) -> None:
        if self._ended_because is None and not self._is_over:
            self._ended_because = reason
            self._broker.turns.write(self)

    # ------------------------------------------------------------------------- what is declared first

    def _advance(self, step: Callable[[], Request]) -> None:
        try:
            _, method, arguments = step()
        except StopIteration as end:
            self._is_ready = True
            self._user.ready(end.value)
            self._broker.turns.write(self)
        except ChannelRefused as refused:
            self._fail(str(refused))
        else:
            self._ask(method, arguments).then(self._answered, self._declined)

    def _ask(self, method: str, arguments: Mapping[str, Any]) -> Pending[Any]:
        assert self._session is not None, f"{method} without a session"
        given = dict(arguments)
        if "arguments" in given:  # numbers and texts as they would arrive over the wire
            given["arguments"] = decode_table(encode_table(given["arguments"]))[0]
        try:
            return REQUESTS[method](self._session, given, self._clock.wall_ms())
        except BrokerError as error:
            return Pending.failed(error)

    def _answered(self, answer: Any) -> None:
        if not self._is_over:
            self._advance(lambda: self._steps.send(answer))

    def _declined(self, error: BrokerError) -> None:
        if not self._is_over:
            code = code_of(error)
            refused = ChannelRefused(code, reply_text(code, error.text))
            self._advance(lambda: self._steps.throw(refused))

    # ------------------------------------------------------------------------- what the user says

    def publish(self, exchange: bytes, routing_key: bytes, content: bytes, count: int, *, mandatory: bool) -> None:
        if self._is_over or self._ended_because is not None:
            return
        names = exchange.decode("utf-8", "surrogateescape"), routing_key.decode("utf-8", "surrogateescape")
        position = 0
        try:
            for part, end, body_bytes, persistent, priority, expiration, user_id, look in alike_runs(content, 0, count):
                run = Run(
                    *names,
                    content[position:end],
                    part,
                    body_bytes,
                    persistent,
                    mandatory,
                    priority,
                    None if expiration is None else expiration_ms(expiration),
                    None if user_id is None else user_id.decode("utf-8", "replace"),
                    look,
                )
                self._publish(run)
                position = end
        except BrokerError as error:
            self._refused(error)
        except FrameError as error:
            self._fail(f"{error.code} {error.text}")

    def _publish(self, run: Run) -> None:
        assert self._session is not None, f"{run.count} messages published before the session is open"
        under_way = self._session.publisher.publish(run, self._clock.wall_ms())
        if under_way is not None and under_way is not self._under_way:
            self._under_way = under_way
            self._waits += 1
            under_way.then(self._waited, self._refused)
            self._say_flow()

    def _waited(self, _: None) -> None:
        self._waits -= 1
        self._say_flow()

    def hold(self, *, held: bool) -> None:
        """Too much waits for this node's disk, or for other nodes; or no more."""
        self._is_held = held
        self._say_flow()

    def _say_flow(self) -> None:
        may_publish = not (self._waits or self._is_held)
        if may_publish is not self._may_publish:
            self._may_publish = may_publish
            self._say(Flow(CHANNEL, may_publish))

    def acknowledge(self, first: int, last: int, *, multiple: bool) -> None:
        if self._session is not None and not self._is_over:
            try:
                self._session.acknowledge(first, last, multiple, self._clock.wall_ms())
            except BrokerError as error:
                self._refused(error)

    def give_back(self, first: int, last: int) -> None:
        """To their queue, for whoever takes them next."""
        if self._session is not None and not self._is_over:
            for tag in range(first, last + 1):
                self._session.nack(tag, False, True, self._clock.wall_ms())

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._wake()

    def _wake(self) -> None:
        if self._session is not None and not self._is_over:
            self._session.resume(self._clock.wall_ms())

    # ------------------------------------------------------------------------- what the session says (SessionSink)

    @property
    def writable(self) -> bool:
        return not self._is_paused and self._untold_bytes < UNTOLD_BYTES_MAX

    def deliver(self, consumer: Consumer, first_tag: int, piece: Slice, content: bytes) -> None:
        try:
            self._deliver(consumer, first_tag, piece, *with_added(piece, content))
        except FrameError as error:
            self._fail(f"{error.code} {error.text}")

    def _deliver(self, consumer: Consumer, first_tag: int, piece: Slice, content: bytes, position: int) -> None:
        tag, exchange, key = consumer.tag.encode(), piece.exchange.encode(), piece.routing_key.encode()
        for run in alike_runs(content, position, piece.count):
            count, end = run[:2]
            part = content[position:end]
            self._untold_bytes += len(part)
            self._say(Delivered(CHANNEL, tag, first_tag, piece.redelivered, exchange, key, count, part, *run[2:]))
            first_tag, position = first_tag + count, end

    def confirm(self, first: int, last: int, multiple: bool, ok: bool) -> None:
        self._say(Confirmed(CHANNEL, first, last, multiple, ok))

    def returned(self, run: Run, code: int, text: str) -> None:
        for props, body in messages(run.content, 0, run.count):
            self._say(PublishReturned(CHANNEL, code, text, run.exchange, run.routing_key, props, body))

    def cancelled(self, consumer_tag: str) -> None:
        self._fail(CANCELLED)

    def timed_out(self, consumer_tag: str) -> None:
        self._fail(CANCELLED)

    def _say(self, said: Said) -> None:
        if not self._is_over:
            self._said.append(said)
            self._broker.turns.write(self)

    # ------------------------------------------------------------------------- at the end of a turn (ClientOutput)

    def proceed(self, now: int) -> bool:
        return False

    def flush(self) -> bool:
        if self._is_ready:
            self._tell_all()
        if self._ended_because is not None and not self._is_over:
            self.close()
            self._user.ended(self._ended_because)
        return False

    def _tell_all(self) -> None:
        said, self._said = self._said, []
        was_writable, self._untold_bytes = self.writable, 0
        for one in said:
            if self._is_over:
                return
            self._tell(one)
        if not was_writable:
            self._wake()

    def _tell(self, said: Said) -> None:
        match said:
            case Delivered():
                self._user.delivered(said)
            case Confirmed():
                self._user.confirmed(said)
            case PublishReturned():
                self._user.returned(said)
            case Blocked():
                self._user.blocked(said.reason)
            case Flow():
                self._user.writable(said.active)


# ------------------------------------------------------------------------- requests of Steps

Given = dict[str, Any]


def _declare(session: Session, given: Given, now: int) -> Pending[Any]:
    declared = session.topology.declare_queue(
        given["queue"],
        passive=given["passive"],
        durable=given["durable"],
        exclusive=given["exclusive"],
        auto_delete=given["auto_delete"],
        arguments=given["arguments"],
        now=now,
    )
    return declared.map(lambda found: {"queue": found.name, "message_count": found.ready})


def _bind(session: Session, given: Given, now: int) -> Pending[Any]:
    return session.topology.bind_queue(given["queue"], given["exchange"], given["routing_key"], given["arguments"], now)


def _prefetch(session: Session, given: Given, now: int) -> Pending[Any]:
    session.set_prefetch(given["prefetch_count"], given["global"])
    return Pending.of(None)


def _consume(session: Session, given: Given, now: int) -> Pending[Any]:
    return session.consume(
        given["queue"],
        given["consumer_tag"],
        no_ack=given["no_ack"],
        exclusive=given["exclusive"],
        no_local=given["no_local"],
        arguments=given["arguments"],
        now=now,
    )


def _confirm(session: Session, given: Given, now: int) -> Pending[Any]:
    session.publisher.select_confirms()
    return Pending.of(None)


def _open(session: Session, given: Given, now: int) -> Pending[Any]:
    """All channels are one session: a request that is refused does not end it."""
    return Pending.of(None)


REQUESTS: Mapping[str, Callable[[Session, Given, int], Pending[Any]]] = {
    "channel.open": _open,
    "queue.declare": _declare,
    "queue.bind": _bind,
    "basic.qos": _prefetch,
    "basic.consume": _consume,
    "confirm.select": _confirm,
}
