"""One connection to one broker, with what is to be declared first: a client, its socket and its timers.

What is asked one after another is a generator of requests, `Steps`: it is sent the arguments of each answer, and ChannelRefused
is thrown into it where the broker closed the channel instead. After a request with `no_wait` the next follows at once; if it is
refused, that is thrown in at a later one. When it has ended, the user is told with `ready`; then come messages, confirms and
whatever else the broker says, and more Steps may be asked, until `ended`, once, with a reason for people. The reason names no
secret.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

from links.amqp import events
from links.amqp.client import AmqpClient
from links.amqp.events import ClientEvent, Confirmed, Delivered, PublishReturned
from links.amqp.opening import FRAME_MAX, ClientTerms
from links.amqp.uri import NO_NAME, AmqpUri
from links.world import Cancel, LinkClock, LinkNet, LinkSocket, LinkTimer, TlsTerms

GUEST = "guest"
GOODBYE_TIMEOUT_S = 5.0
TICK_S = 1.0
CANCELLED = "the broker cancelled the consumer: its queue was deleted or has moved"

Request = tuple[int, str, dict[str, Any]]  # channel, method, arguments
Steps = Generator[Request, Any, Any]


class ChannelRefused(Exception):
    """Thrown into Steps when the broker closed the channel of a request."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code


class ConversationUser(Protocol):
    """Who is told what the broker says."""

    def ready(self, result: Any) -> None:
        """Steps have ended with this result."""

    def delivered(self, run: Delivered) -> None: ...

    def confirmed(self, confirmed: Confirmed) -> None: ...

    def returned(self, returned: PublishReturned) -> None: ...

    def blocked(self, reason: str | None) -> None: ...

    def writable(self, writable: bool) -> None: ...

    def ended(self, reason: str) -> None: ...


class Conversation:
    """See the module. `open` it once."""

    def __init__(
        self, uri: AmqpUri, terms: ClientTerms, steps: Steps, net: LinkNet, clock: LinkClock, user: ConversationUser
    ) -> None:
        self.client = AmqpClient(terms, clock.monotonic())
        self._uri = uri
        self._steps = steps
        self._net = net
        self._clock = clock
        self._user = user
        self._socket: LinkSocket | None = None
        self._give_up: Cancel | None = None
        self._timer: LinkTimer | None = None
        self._asked: tuple[int, str] | None = None  # the channel and method whose answer is waited for
        self._over = False
        self._paused = False

    def open(self) -> None:
        uri = self._uri
        tls = tls_terms(uri) if uri.tls else None
        timeout_s = uri.connection_timeout_ms / 1000
        self._timer = self._clock.call_later(timeout_s, self._not_opened)
        self._give_up = self._net.connect(uri.host, uri.port, tls, timeout_s, self)

    def ask(self, steps: Steps) -> None:
        """More, once `ready` was said of those before: it is said of these, too."""
        assert self._asked is None, f"asked for more while {self._asked} is not answered"
        self._steps = steps
        self._advance(None)

    def flush(self) -> None:
        """Write what was put into the client."""
        out = self.client.data_to_send(self._clock.monotonic())
        if out and self._socket is not None:
            self._socket.write(out)

    def pause(self) -> None:
        self._paused = True
        if self._socket is not None:
            self._socket.pause_reading()

    def resume(self) -> None:
        self._paused = False
        if self._socket is not None:
            self._socket.resume_reading()

    def close(self) -> None:
        """Say goodbye if that is possible, and end. The user is told nothing any more."""
        if self._over:
            return
        self._over = True
        self._steps.close()
        self.client.close()
        self.flush()
        if self._give_up is not None and self._socket is None:
            self._give_up()
        self._again(GOODBYE_TIMEOUT_S, self._abort)

    # ------------------------------------------------------------------------- SocketUser

    def connected(self, socket: LinkSocket) -> None:
        self._socket = socket
        if self._over:
            self._abort()
            return
        self.client.begin()
        self.flush()

    def received(self, data: bytes) -> None:
        self._take(self.client.receive_data(data, self._clock.monotonic()))
        self.flush()

    def writable(self, writable: bool) -> None:
        if not self._over:
            self._user.writable(writable)

    def lost(self, reason: str) -> None:
        self._socket = None
        self._end(reason)
        self._cancel_timer()

    # ------------------------------------------------------------------------- events

    def _take(self, said: list[ClientEvent]) -> None:
        for event in said:
            if isinstance(event, events.ConnectionClosed):
                self.flush()
                self._end(f"{event.code} {event.text}" if event.code else event.text)
                self._abort()
            elif not self._over:
                self._take_one(event)

    def _take_one(self, event: ClientEvent) -> None:
        match event:
            case events.Delivered():
                self._user.delivered(event)
            case events.Confirmed():
                self._user.confirmed(event)
            case events.PublishReturned():
                self._user.returned(event)
            case events.Opened():
                self._again(TICK_S, self._tick)
                self._advance(None)
            case events.Answered():
                self._answered(event)
            case events.Blocked():
                self._user.blocked(event.reason)
            case events.Flow():
                self._user.blocked(None if event.active else "the broker stopped the channel's flow")
            case events.Cancelled():
                self._fail(CANCELLED)
            case events.ChannelClosed():
                self._channel_closed(event)

    def _answered(self, event: events.Answered) -> None:
        if (event.channel, event.method) != self._asked:
            self._fail(f"the broker answered {event.method} on channel {event.channel}, which nobody had asked for")
        else:
            self._advance(event.arguments)

    def _channel_closed(self, event: events.ChannelClosed) -> None:
        refused = ChannelRefused(event.code, event.text)
        try:
            self._request(self._steps.throw(refused))
        except ChannelRefused:
            self._fail(str(refused))
        except StopIteration as end:
            self._ready(end.value)

    def _advance(self, answer: Any) -> None:
        try:
            self._request(self._steps.send(answer))
        except StopIteration as end:
            self._ready(end.value)

    def _ready(self, result: Any) -> None:
        self._asked = None
        self.flush()
        self._user.ready(result)

    def _request(self, request: Request) -> None:
        """This one, and those behind it up to the first that is answered."""
        channel, name, arguments = request
        self.client.send(channel, name, **arguments)
        while arguments.get("no_wait"):
            channel, name, arguments = self._steps.send(None)
            self.client.send(channel, name, **arguments)
        self._asked = (channel, f"{name}-ok")
        self.flush()

    # ------------------------------------------------------------------------- time and ends

    def _tick(self) -> None:
        self._again(TICK_S, self._tick)
        now = self._clock.monotonic()
        if self._paused:
            self.client.not_read(now)
        self._take(self.client.tick(now))
        self.flush()

    def _not_opened(self) -> None:
        self._fail(f"no connection within {self._uri.connection_timeout_ms} ms")

    def _fail(self, reason: str) -> None:
        self._end(reason)
        self.client.close()
        self.flush()
        if self._socket is None and self._give_up is not None:
            self._give_up()
        self._again(GOODBYE_TIMEOUT_S, self._abort)

    def _end(self, reason: str) -> None:
        if not self._over:
            self._over = True
            self._user.ended(reason)

    def _abort(self) -> None:
        self._cancel_timer()
        if self._socket is not None:
            self._socket.abort()

    def _again(self, delay_s: float, callback: Cancel) -> None:
        self._cancel_timer()
        self._timer = self._clock.call_later(delay_s, callback)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def tls_terms(uri: AmqpUri) -> TlsTerms:
    files = dict(uri.files)
    checks_name = uri.server_name != NO_NAME
    return TlsTerms(
        (uri.server_name or uri.host) if checks_name else "",
        uri.verify,
        files.get("cacertfile", ""),
        files.get("certfile", ""),
        files.get("keyfile", ""),
        uri.key_password,
        checks_name,
    )


def login_terms(uri: AmqpUri, properties: dict[str, Any]) -> ClientTerms:
    user = GUEST if uri.user is None else uri.user
    password = (GUEST if uri.user is None else "") if uri.password is None else uri.password
    # Smaller frames may be asked for, not larger ones: a whole frame is kept until its end has come.
    frame_max = min(uri.frame_max or FRAME_MAX, FRAME_MAX)
    return ClientTerms(uri.vhost, uri.mechanism, user, password, uri.heartbeat_s, frame_max, properties)
