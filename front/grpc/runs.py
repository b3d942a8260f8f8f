"""A batch of messages becomes runs: put into the broker's form once, cut where messages do not agree."""

from __future__ import annotations

from collections.abc import Iterator

from broker.errors import BrokerError, PreconditionFailed
from broker.messages.message import Run
from front.grpc import convert
from front.grpc.convert import DEFAULT_SHAPE
from front.message_shape import Shape
from leveret.v1 import message_pb2, publish_pb2
from native import content
from native.frame_split import RUN_CONTENT_BYTES_MAX

RUN_MESSAGES_MAX = 4_096  # where a queue looks at each by itself that is 16 ms of one turn


def pieces_of(batch: publish_pb2.PublishBatch, message_bytes_max: int) -> Iterator[Run | BrokerError]:
    """The batch as runs, in order; an error stands for one message that cannot be taken."""
    gathered = _Gathered(batch)
    shapes = _Shapes()
    for message in batch.messages:
        try:
            shape = shapes.of(message)
            if len(message.body) > message_bytes_max:
                raise PreconditionFailed(f"a message of {len(message.body)} bytes is larger than {message_bytes_max}")
        except BrokerError as error:
            yield from gathered.take()
            yield error
            continue
        if not gathered.has_room_for(shape, len(message.body)):
            yield from gathered.take()
        gathered.add(shape, message.body)
    yield from gathered.take()


class _Shapes:
    """The shapes of one batch: messages mostly share their properties, which are then encoded once."""

    def __init__(self) -> None:
        self._known: dict[bytes, Shape] = {}

    def of(self, message: message_pb2.Message) -> Shape:
        if not message.HasField("properties"):
            return DEFAULT_SHAPE
        raw = message.properties.SerializeToString()
        shape = self._known.get(raw)
        if shape is None:
            shape = self._known[raw] = convert.shape_of(message.properties)
        return shape


class _Gathered:
    """Messages of one batch that will be the next run."""

    def __init__(self, batch: publish_pb2.PublishBatch) -> None:
        self._batch = batch
        # Behind a headers exchange each message finds its own way, and a return must say which of them found none.
        self._alone = batch.mandatory and batch.exchange != ""
        self._shape = DEFAULT_SHAPE  # of the last one, whose limits of travel hold for all
        self._look = 0
        self._contents: list[bytes] = []
        self._content_bytes = 0
        self._body_bytes = 0

    def has_room_for(self, shape: Shape, body_bytes: int) -> bool:
        return not self._contents or (
            not self._alone
            and self._shape.travels_with(shape)
            and len(self._contents) < RUN_MESSAGES_MAX
            and self._content_bytes + body_bytes <= RUN_CONTENT_BYTES_MAX
        )

    def add(self, shape: Shape, body: bytes) -> None:
        encoded = content.encode(shape.props, body)
        self._contents.append(encoded)
        self._content_bytes += len(encoded)
        self._body_bytes += len(body)
        self._look |= shape.look
        self._shape = shape

    def take(self) -> Iterator[Run]:
        if not self._contents:
            return
        run = Run(
            exchange=self._batch.exchange,
            routing_key=self._batch.routing_key,
            content=b"".join(self._contents),
            count=len(self._contents),
            body_bytes=self._body_bytes,
            persistent=self._shape.persistent,
            mandatory=self._batch.mandatory,
            priority=self._shape.priority,
            expiration_ms=self._shape.expiration_ms,
            user_id=self._shape.user_id,
            look=self._look,
        )
        self._contents, self._content_bytes, self._body_bytes, self._look = [], 0, 0, 0
        yield run
