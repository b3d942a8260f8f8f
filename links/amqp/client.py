"""One client connection of AMQP 0-9-1, without I/O.

    begin            the bytes that open the conversation are ready to be sent
    receive_data     bytes of the broker in, events out, in order
    request, send, publish, acknowledge, nack, close     put frames behind those that wait
    data_to_send     what is to be written now
    tick, not_read   looks at the heartbeat; events if the broker is silent for too long

    start → tune → open → running → closing → closed

After ConnectionClosed nothing more comes out, and nothing goes in. What the broker sends against the protocol ends the
connection, with the reason in the event; it never raises. Deliveries come in runs, cut by native/delivery_split.py.
"""

from __future__ import annotations

from enum import Enum

from links.amqp import events
from links.amqp.contents import ArrivingContent, ContentError
from links.amqp.events import ClientEvent
from links.amqp.opening import FRAME_MAX, ClientTerms, OpeningRefused, Tuned, start_ok, tune_ok, tuned
from native import deliver
from native.content import Buffer, encode
from native.delivery_split import DELIVERY, parse_deliver, split_deliveries
from native.frame_split import ACK, FrameError, look_at
from wire.amqp import frame, spec
from wire.amqp.argument_types import MalformedArguments
from wire.amqp.spec import Arguments, UnknownMethod

_WITH_CONTENT = frozenset({"basic.return", "basic.deliver"})
_PROTOCOL_HEADER_START = b"AMQP"


class ClientState(Enum):
    START = "start"
    TUNE = "tune"
    OPEN = "open"
    RUNNING = "running"
    CLOSING = "closing"
    CLOSED = "closed"


class AmqpClient:
    """See the module."""

    def __init__(self, terms: ClientTerms, now: float) -> None:
        self.state = ClientState.START
        self.agreed = Tuned(terms.frame_max or FRAME_MAX, 0)
        self._terms = terms
        self._buffer = bytearray()
        self._out: list[bytes] = []
        self._events: list[ClientEvent] = []
        self._arriving: dict[int, ArrivingContent] = {}
        self._arriving_bytes = 0  # of all their bodies: a broker has 65,535 channels to begin messages on
        self.server_properties: Arguments = {}
        self._heard_at = self._sent_at = now

    @property
    def closed(self) -> bool:
        return self.state is ClientState.CLOSED

    # ------------------------------------------------------------------------- to the broker

    def begin(self) -> None:
        self._out.append(frame.PROTOCOL_HEADER)

    def send(self, channel: int, name: str, /, **arguments: object) -> None:
        """A method without a content. Its answer, if it has one, is an Answered."""
        self._out.append(frame.method_frame(channel, spec.encode(name, **arguments)))

    def publish(
        self,
        channel: int,
        exchange: bytes,
        routing_key: bytes,
        content: Buffer,
        position: int,
        count: int,
        *,
        mandatory: bool,
    ) -> None:
        """`count` messages of a content, from `position` on."""
        wire, _ = deliver.publishes(
            content, position, count, channel, exchange, routing_key, mandatory, self.agreed.frame_max
        )
        self._out.append(wire)

    def acknowledge(self, channel: int, first: int, last: int, *, multiple: bool) -> None:
        self._out.append(frame.confirms(channel, first, last, multiple, True))

    def nack(self, channel: int, first: int, last: int) -> None:
        """Back to their queue, for whoever takes them next."""
        for tag in range(first, last + 1):
            self.send(channel, "basic.nack", delivery_tag=tag, multiple=False, requeue=True)

    def close(self) -> None:
        """Say goodbye. The broker's answer is a ConnectionClosed with code 200."""
        if self.state is ClientState.RUNNING:
            self.send(0, "connection.close", reply_code=200, reply_text="Goodbye", class_id=0, method_id=0)
            self.state = ClientState.CLOSING

    def data_to_send(self, now: float) -> bytes:
        if not self._out:
            return b""
        self._sent_at = now
        out, self._out = self._out, []
        return b"".join(out)

    # ------------------------------------------------------------------------- time

    def not_read(self, now: float) -> None:
        """The broker may have spoken: this side has stopped to read."""
        self._heard_at = now

    def tick(self, now: float) -> list[ClientEvent]:
        """Call it twice in each heartbeat interval, or more often."""
        interval = self.agreed.heartbeat_s
        if interval and self.state in (ClientState.RUNNING, ClientState.CLOSING):
            if now - self._heard_at > 2 * interval:
                self._end(0, f"the broker sent nothing for {2 * interval} s")
            elif now - self._sent_at >= interval / 2:
                self._out.append(frame.HEARTBEAT_FRAME)
        return self._take_events()

    # ------------------------------------------------------------------------- from the broker

    def receive_data(self, data: Buffer, now: float) -> list[ClientEvent]:
        if self.closed:
            return []
        self._heard_at = now
        self._buffer += data
        if self.state is ClientState.START and self._buffer.startswith(_PROTOCOL_HEADER_START):
            self._end(0, "the broker speaks another version of the protocol than AMQP 0-9-1")
            return self._take_events()
        items, end, error = split_deliveries(
            self._buffer, 0, self.agreed.frame_max, self._terms.message_bytes_max, self._terms.message_bytes_max * 2
        )
        del self._buffer[:end]
        for item in items:
            if self.closed:
                break
            if item[0] == DELIVERY:
                self._events.append(events.Delivered(*item[1:]))
            elif item[0] == ACK:
                self._confirmed(item[1], item[2], item[3], item[4], ok=True)
            else:
                self._take_frame(item[1], item[2], item[3])
        if error is not None:
            self._fail(*error)
        return self._take_events()

    def _take_events(self) -> list[ClientEvent]:
        taken, self._events = self._events, []
        return taken

    def _take_frame(self, kind: int, channel: int, payload: bytes) -> None:
        try:
            if kind == frame.METHOD:
                self._take_method(channel, payload)
            elif kind != frame.HEARTBEAT:
                self._take_content_frame(kind, channel, payload)
        except (MalformedArguments, ContentError, FrameError) as error:
            self._fail(502, f"SYNTAX_ERROR - {error}")
        except UnknownMethod as error:
            self._fail(503, f"COMMAND_INVALID - {error}")
        except OpeningRefused as error:
            self._end(0, str(error))

    def _take_method(self, channel: int, payload: bytes) -> None:
        method = spec.method_of(payload)
        if method.name in _WITH_CONTENT:
            self._drop_arriving(channel)
            self._arriving[channel] = ArrivingContent(payload, self._terms.message_bytes_max)
            return
        arguments = spec.decode(method, payload)
        if channel == 0:
            self._take_connection_method(method.name, arguments)
        else:
            self._take_channel_method(channel, method.name, arguments)

    def _take_connection_method(self, name: str, arguments: Arguments) -> None:
        match self.state, name:
            case ClientState.START, "connection.start":
                self.server_properties = arguments["server_properties"]
                self._reply(start_ok(self._terms, arguments), ClientState.TUNE)
            case ClientState.TUNE, "connection.secure":
                self._end(0, f"the broker asks for more than {self._terms.mechanism} has to say")
            case ClientState.TUNE, "connection.tune":
                self.agreed = tuned(self._terms, arguments)
                self._reply(tune_ok(self.agreed, arguments), ClientState.OPEN)
                self.send(0, "connection.open", virtual_host=self._terms.vhost)
            case ClientState.OPEN, "connection.open-ok":
                self.state = ClientState.RUNNING
                self._events.append(events.Opened(self.server_properties))
            case _, "connection.close":
                self.send(0, "connection.close-ok")
                self._end(arguments["reply_code"], arguments["reply_text"])
            case ClientState.CLOSING, "connection.close-ok":
                self._end(200, "Goodbye")
            case ClientState.RUNNING | ClientState.CLOSING, "connection.blocked":
                self._events.append(events.Blocked(arguments["reason"]))
            case ClientState.RUNNING | ClientState.CLOSING, "connection.unblocked":
                self._events.append(events.Blocked(None))
            case _:
                self._fail(503, f"COMMAND_INVALID - {name} while the connection is in state {self.state.value}")

    def _take_channel_method(self, channel: int, name: str, arguments: Arguments) -> None:
        match name:
            case "basic.ack" | "basic.nack":
                tag = arguments["delivery_tag"]
                self._confirmed(channel, tag, tag, arguments["multiple"], ok=name == "basic.ack")
            case "basic.cancel":
                self._events.append(events.Cancelled(channel, arguments["consumer_tag"]))
            case "channel.flow":
                self.send(channel, "channel.flow-ok", active=arguments["active"])
                self._events.append(events.Flow(channel, arguments["active"]))
            case "channel.close":
                self.send(channel, "channel.close-ok")
                self._drop_arriving(channel)
                self._events.append(events.ChannelClosed(channel, arguments["reply_code"], arguments["reply_text"]))
            case _:
                self._events.append(events.Answered(channel, name, arguments))

    def _confirmed(self, channel: int, first: int, last: int, multiple: bool, *, ok: bool) -> None:
        self._events.append(events.Confirmed(channel, first, last, multiple, ok))

    def _take_content_frame(self, kind: int, channel: int, payload: bytes) -> None:
        content = self._arriving.get(channel)
        if content is None:
            raise ContentError(f"a content frame on channel {channel} without a method before it")
        whole = content.take_header(payload) if kind == frame.HEADER else self._take_body(content, payload)
        if whole:
            self._drop_arriving(channel)
            self._events.append(_message(channel, content))

    def _take_body(self, content: ArrivingContent, payload: bytes) -> bool:
        self._arriving_bytes += len(payload)
        if self._arriving_bytes > self._terms.message_bytes_max:
            raise ContentError(f"messages of {self._arriving_bytes} bytes arrive at once, and none comes to its end")
        return content.take_body(payload)

    def _drop_arriving(self, channel: int) -> None:
        content = self._arriving.pop(channel, None)
        if content is not None:
            self._arriving_bytes -= len(content.body)

    # ------------------------------------------------------------------------- ends

    def _reply(self, payload: bytes, state: ClientState) -> None:
        self._out.append(frame.method_frame(0, payload))
        self.state = state

    def _fail(self, code: int, text: str) -> None:
        """The broker broke the protocol: it is told, and nothing it says counts any more."""
        if not self.closed:
            self.send(0, "connection.close", reply_code=code, reply_text=_short(text), class_id=0, method_id=0)
            self._end(0, f"the broker broke the protocol: {text}")

    def _end(self, code: int, text: str) -> None:
        self.state = ClientState.CLOSED
        self._buffer.clear()
        self._arriving.clear()
        self._events.append(events.ConnectionClosed(code, text))


def _short(text: str) -> str:
    return text.encode()[:255].decode("utf-8", "ignore")


def _message(channel: int, content: ArrivingContent) -> ClientEvent:
    """Raises MalformedArguments or FrameError."""
    props, body = content.props or b"", bytes(content.body)
    delivery = parse_deliver(content.method)
    if delivery is not None:
        look = look_at(props)
        return events.Delivered(channel, *delivery, 1, encode(props, body), len(body), *look)
    arguments = spec.decode(spec.METHODS["basic.return"], content.method)
    return events.PublishReturned(
        channel,
        arguments["reply_code"],
        arguments["reply_text"],
        arguments["exchange"],
        arguments["routing_key"],
        props,
        body,
    )
