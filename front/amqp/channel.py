"""One channel: its input goes to its session, in order; what the session delivers and answers goes out as frames.

    OPEN       methods and contents are handled one after the other. While the answer to one is pending, what follows on this
               channel waits here; other channels go on (backpressure.py)
    CLOSING    the server has sent channel.close: everything is ignored until the client's channel.close-ok

The channel is the session's `SessionSink`. It does no I/O and knows no clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from broker.errors import BrokerError, PreconditionFailed
from broker.messages.message import Run
from broker.pending import Pending
from broker.queues.added_headers import with_added
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Slice
from broker.reply_codes import CHANNEL_ERROR, COMMAND_INVALID, FRAME_ERROR, UNEXPECTED_FRAME
from front.amqp.backpressure import item_bytes
from front.amqp.content import Assembly, expected_header
from front.amqp.methods import HANDLERS
from front.amqp.replies import ProtocolError, Reply, reply_to
from native.deliver import BODY_BYTES_MIN, content_frames, deliveries, is_large, large_deliveries
from native.frame_split import ACK, FRAME, PUBLISH, FrameError, Item
from wire.amqp import frame, spec
from wire.amqp.argument_types import MalformedArguments, MalformedText

if TYPE_CHECKING:
    from broker.session.session import GotMessage, Session
    from front.amqp.connection import Connection

T = TypeVar("T")

_PUBLISH_METHOD = spec.METHODS["basic.publish"]
_ACK_METHOD = spec.METHODS["basic.ack"]
_CLOSE = spec.METHODS["channel.close"]
_CLOSE_OK = spec.METHODS["channel.close-ok"]
_OPEN = spec.METHODS["channel.open"]


class ChannelState(Enum):
    OPEN = "open"
    CLOSING = "closing"


# For every run: to look a member up in its Enum takes Python 3.11 a fifth of a microsecond.
_IS_OPEN, _IS_CLOSING = ChannelState.OPEN, ChannelState.CLOSING


class Channel:
    """The front's side of one session."""

    __slots__ = ("_assembly", "_cancels", "_method", "_waiting", "connection", "number", "session", "state")

    session: Session  # set by the connection, right after it was opened with this channel as its sink

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection = connection
        self.number = number
        self.state = ChannelState.OPEN
        self._assembly: Assembly | None = None
        self._waiting: deque[Item] | None = None  # input behind a pending answer; None: no answer is pending
        self._method: spec.Method | None = None  # the one being handled, for error replies
        self._cancels: list[str] | None = None  # consumers that end while a method is handled; None: none is handled

    # ------------------------------------------------------------------------- input

    def take(self, item: Item, now: int) -> None:
        """One item of the splitter, for this channel."""
        if self._waiting is not None:
            self._waiting.append(item)
            self.connection.pressure.waiting_bytes += item_bytes(item)
            return
        if self.state is _IS_CLOSING:
            self._ignore_until_close_ok(item)
            return
        try:
            if item[0] == FRAME:
                self._take_frame(item[1], item[3], now)
            elif self._assembly is not None:
                self._method = _PUBLISH_METHOD
                raise self._interrupted()
            elif item[0] == PUBLISH:
                self._method = _PUBLISH_METHOD
                published = self.session.publisher.publish_raw(*item[2:], now)
                if published is not None:
                    self.answer(published, lambda _: None)
            else:
                assert item[0] == ACK, f"the splitter made an item of kind {item[0]}"
                self._method = _ACK_METHOD
                self.session.acknowledge(item[2], item[3], item[4], now)
        except (BrokerError, ProtocolError) as error:
            self._refuse(error, self._method)
        except FrameError as error:  # the session looked into a publish and could not read it
            self._refuse(ProtocolError(error.code, error.text), self._method)

    def take_waiting(self, now: int) -> None:
        """Go on with the input that waited, until some of it makes the rest wait again."""
        connection, waiting = self.connection, self._waiting
        self._waiting = None
        while waiting:
            if connection.channels.get(self.number) is not self:  # closed
                connection.take_behind_closed(self.number, waiting)
                return
            if self._waiting is not None:  # another answer is pending
                self._waiting.extend(waiting)
                return
            if connection.pressure.congested:
                self.take_over(waiting)
                return
            item = waiting.popleft()
            connection.pressure.waiting_bytes -= item_bytes(item)
            self.take(item, now)

    def take_over(self, waiting: deque[Item]) -> None:
        """Handle this input later, before any other; it may have waited in the channel that had this number before."""
        self._waiting = waiting
        self.connection.pressure.resume_channel(self)

    def _take_frame(self, kind: int, payload: bytes, now: int) -> None:
        if self._assembly is not None:
            self._take_content(kind, payload, now)
            return
        self._method = None
        if kind != frame.METHOD:
            raise ProtocolError(UNEXPECTED_FRAME, "expected method frame, got non method frame instead")
        try:
            self._method = method = spec.method_of(payload)
            arguments = spec.decode(method, payload)
        except spec.UnknownMethod as error:
            raise ProtocolError(COMMAND_INVALID, str(error)) from error
        except MalformedText as error:
            self._method = None
            raise ProtocolError(FRAME_ERROR, str(error)) from error
        except MalformedArguments as error:
            raise ProtocolError(FRAME_ERROR, f"cannot decode {self._method or 'a method'}: {error}") from error
        if method is _PUBLISH_METHOD:
            self._assembly = Assembly(payload, self.connection.limits.message_bytes_max)
        elif method is _CLOSE:
            self.connection.channel_closed_by_client(self)
        elif method is _OPEN:
            raise ProtocolError(CHANNEL_ERROR, "second 'channel.open' seen")
        elif (handler := HANDLERS.get(method.name)) is not None:
            self._cancels = []
            handler(self, arguments, now)
            if self._waiting is None:
                self._send_cancels()
        else:
            raise ProtocolError(COMMAND_INVALID, "unimplemented method")

    def _take_content(self, kind: int, payload: bytes, now: int) -> None:
        assembly = self._assembly
        assert assembly is not None, "a content without its method"
        self._method = _PUBLISH_METHOD
        kept_before = assembly.kept_bytes
        whole = assembly.take(kind, payload)
        self.connection.assembling(assembly.kept_bytes - kept_before)
        if whole:
            self.drop_assembly()
            look = assembly.look
            published = self.session.publisher.publish_raw(
                assembly.method_payload,
                1,
                assembly.content(),
                assembly.body_bytes,
                look.persistent,
                look.priority,
                look.expiration,
                look.user_id,
                look.look,
                now,
            )
            if published is not None:
                self.answer(published, lambda _: None)

    def _interrupted(self) -> ProtocolError:
        assert self._assembly is not None, "nothing was interrupted"
        if self._assembly.missing is None:
            return expected_header("non content header frame")
        return ProtocolError(UNEXPECTED_FRAME, "expected content body, got method frame instead")

    def drop_assembly(self) -> None:
        if self._assembly is not None:
            kept = self._assembly.kept_bytes
            self._assembly = None
            self.connection.assembling(-kept)

    def _ignore_until_close_ok(self, item: Item) -> None:
        if item[0] != FRAME or item[1] != frame.METHOD:
            return
        head = item[3][:4]
        if head == _CLOSE_OK.head:
            self.connection.channel_gone(self)
        elif head == _CLOSE.head:  # both sides closed at once: answer theirs, and keep waiting for the answer to ours
            self.send(_CLOSE_OK.head)
        elif head == _OPEN.head:
            self.connection.fail(reply_to(ProtocolError(CHANNEL_ERROR, "second 'channel.open' seen"), 20, 10))

    # ------------------------------------------------------------------------- answers

    def send(self, payload: bytes) -> None:
        """A method to the client."""
        self.connection.send(frame.method_frame(self.number, payload))

    def answer(self, pending: Pending[T], reply: Callable[[T], bytes | None]) -> None:
        """Send what `reply` makes of the answer (None: nothing). While it is pending, this channel's input waits."""
        method = self._method

        def on_value(value: T) -> None:
            if self.state is ChannelState.OPEN:
                payload = reply(value)
                if payload is not None:
                    self.send(payload)
                self._send_cancels()
            self._answered()

        def on_error(error: BrokerError) -> None:
            if self.state is ChannelState.OPEN:
                self._refuse(error, method)
            self._answered()

        if not pending.answered:
            self._waiting = deque()
        pending.then(on_value, on_error)

    def _answered(self) -> None:
        if self._waiting is not None:
            self.connection.pressure.resume_channel(self)

    def _refuse(self, error: BrokerError | ProtocolError, method: spec.Method | None) -> None:
        """Close the channel, or the connection, with this error."""
        reply = reply_to(error, method.class_id, method.method_id) if method is not None else reply_to(error)
        if reply.hard:
            self.connection.fail(reply)
        else:
            self._close(reply)

    def _close(self, reply: Reply) -> None:
        if self.state is ChannelState.CLOSING:
            return
        self.leave()
        self.send(
            spec.encode(
                "channel.close",
                reply_code=reply.code,
                reply_text=reply.text,
                class_id=reply.class_id,
                method_id=reply.method_id,
            )
        )

    def leave(self) -> None:
        """Close the session; from here on the channel only waits for its close-ok."""
        if self.state is ChannelState.OPEN:
            self.stop()
            self.session.close(self.connection.now)

    def stop(self) -> None:
        """Ignore further input: the connection is over, and the broker closes its sessions."""
        self.state = ChannelState.CLOSING
        self.drop_assembly()

    # ------------------------------------------------------------------------- what the session says (SessionSink)

    @property
    def writable(self) -> bool:
        return self.connection.pressure.writable

    def permissions_changed(self) -> None:
        if self.state is ChannelState.OPEN:
            self.session.permissions_changed()

    def resume(self, now: int) -> None:
        """Deliveries stopped because there was no room to write; now there is."""
        if self.state is ChannelState.OPEN:
            self.session.resume(now)

    def deliver(self, consumer: Consumer, first_tag: int, piece: Slice, content: bytes) -> None:
        position = piece.position
        if piece.headers or piece.offset is not None:
            content, position = with_added(piece, content)
        said = (
            content,
            position,
            piece.count,
            self.number,
            consumer.tag.encode(),
            first_tag,
            piece.redelivered,
            piece.exchange.encode(),
            piece.routing_key.encode(),
            self.connection.frame_max,
        )
        if len(content) - position > BODY_BYTES_MIN and is_large(content, position):
            self.connection.send_pieces(*large_deliveries(*said))
        else:
            self.connection.send(deliveries(*said)[0])

    def send_got(self, got: GotMessage) -> None:
        """Basic.get-ok with its message."""
        piece = got.piece
        content, position = with_added(piece, got.content)
        method = spec.encode(
            "basic.get-ok",
            delivery_tag=got.tag,
            redelivered=piece.redelivered,
            exchange=piece.exchange,
            routing_key=piece.routing_key,
            message_count=got.remaining,
        )
        frames, _ = content_frames(content, position, self.number, self.connection.frame_max)
        self.connection.send(frame.method_frame(self.number, method) + frames)

    def confirm(self, first: int, last: int, multiple: bool, ok: bool) -> None:
        if self.state is _IS_OPEN:
            self.connection.send(frame.confirms(self.number, first, last, multiple, ok))

    def returned(self, run: Run, code: int, text: str) -> None:
        method = spec.encode(
            "basic.return", reply_code=code, reply_text=text, exchange=run.exchange, routing_key=run.routing_key
        )
        head, position = frame.method_frame(self.number, method), 0
        for _ in range(run.count):
            frames, position = content_frames(run.content, position, self.number, self.connection.frame_max)
            self.connection.send(head + frames)

    def cancelled(self, consumer_tag: str) -> None:
        """Send basic.cancel, but after the answer to the client's own queue.delete: it may close the channel on a cancel."""
        if self._cancels is not None:
            self._cancels.append(consumer_tag)
        elif self.state is ChannelState.OPEN and self.connection.client_can("consumer_cancel_notify"):
            self.send(spec.encode("basic.cancel", consumer_tag=consumer_tag, no_wait=True))

    def timed_out(self, consumer_tag: str) -> None:
        if self.connection.client_can("consumer_cancel_notify"):
            self.cancelled(consumer_tag)
        else:
            text = f"delivery acknowledgement on channel {self.number} timed out for consumer '{consumer_tag}'"
            self._refuse(PreconditionFailed(text), None)

    def _send_cancels(self) -> None:
        cancels, self._cancels = self._cancels, None
        for tag in cancels or ():
            self.cancelled(tag)
