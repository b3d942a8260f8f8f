"""Publishers that remember what was confirmed, a consumer that remembers what it took, and the judge of what is found later.

Every message says who published it, its number and its size: `publisher:number:size:`, again and again up to that size. A
publisher counts up and never sends a number twice, so what is found in a queue must be whole, strictly increasing for each
publisher, must hold every number that was confirmed and not acknowledged, and may hold numbers that were sent but not answered.
Anything else is a failure.
"""

from __future__ import annotations

import itertools
import random
import threading
from dataclasses import dataclass, field

from pamqp import body, commands, frame, header

from native.frame_split import ACK, FRAME
from tests.bench.client import Client, UnexpectedAnswer

Address = tuple[str, int]
SIZES = (20, 100, 100, 100, 900, 5_000, 20_000)  # most are embedded beside the index, some lie in the shared store
WINDOW = 100


@dataclass
class PublisherHistory:
    """What one publisher did, over all the lives of the node."""

    name: str
    exchange: str
    key: str
    sent: int = 0  # numbers 1 to sent were handed to the socket
    confirmed: set[int] = field(default_factory=set)


def message(channel: int, exchange: str, key: str, payload: bytes) -> bytes:
    properties = commands.Basic.Properties(delivery_mode=2)
    return b"".join(
        (
            frame.marshal(commands.Basic.Publish(exchange=exchange, routing_key=key), channel),
            frame.marshal(header.ContentHeader(0, len(payload), properties), channel),
            frame.marshal(body.ContentBody(payload), channel),
        )
    )


class Publisher(threading.Thread):
    """Publishes until the connection breaks or it is told to stop, and notes each confirm in its history."""

    def __init__(self, address: Address, history: PublisherHistory, seed: int) -> None:
        super().__init__(name=history.name, daemon=True)
        self._address = address
        self._history = history
        self._random = random.Random(seed)
        self._told_to_stop = threading.Event()
        self._power_is_off = threading.Event()
        self.confirmed_now = 0
        self.progress = threading.Event()  # set at each confirm

    def stop(self) -> None:
        self._told_to_stop.set()

    def power_goes_off(self) -> None:
        """From now on nothing that is heard counts. A machine without power says nothing; this one goes on running for a
        moment, and ext4 may report success for an fsync that its shutdown overtook."""
        self._power_is_off.set()

    def run(self) -> None:
        try:
            self._publish(Client(*self._address))
        except (OSError, UnexpectedAnswer):
            return  # the node's end is what this is about; what was not confirmed stays open
        finally:
            self.progress.set()

    def _publish(self, client: Client) -> None:
        client.call(1, commands.Confirm.Select(), "Confirm.SelectOk")
        history = self._history
        base = history.sent  # tag 1 is number base + 1
        open_tags: set[int] = set()
        while not self._told_to_stop.is_set() or open_tags:
            if len(open_tags) < WINDOW and not self._told_to_stop.is_set():
                burst = self._random.randint(1, WINDOW - len(open_tags))
                numbers = range(history.sent + 1, history.sent + burst + 1)
                data = b"".join(message(1, history.exchange, history.key, self._payload(number)) for number in numbers)
                history.sent += burst
                open_tags.update(number - base for number in numbers)
                client.send(data)
            items = client.receive_items()
            if self._power_is_off.is_set():
                return
            for item in items:
                if item[0] != ACK:
                    raise UnexpectedAnswer(f"waiting for confirms: {item!r}")
                _, _, first, last, multiple = item
                tags = {tag for tag in open_tags if tag <= last and (multiple or tag >= first)}
                open_tags -= tags
                history.confirmed.update(tag + base for tag in tags)
                self.confirmed_now += len(tags)
                self.progress.set()

    def _payload(self, number: int) -> bytes:
        return payload(self._history.name, number, self._random.choice(SIZES))


@dataclass
class QueueHistory:
    """What a queue owes: which publishers feed it, and what was taken from it and acknowledged."""

    name: str
    publishers: list[PublisherHistory]
    acknowledged: dict[str, set[int]] = field(default_factory=dict)
    # Acknowledged, but the node may have ended before it took note: these may come back, flagged as redelivered.
    perhaps_acknowledged: dict[str, set[int]] = field(default_factory=dict)


def payload(name: str, number: int, size: int) -> bytes:
    """At least its head, however small it is to be."""
    head = f"{name}:{number}:{size}:".encode()
    return (head * (size // len(head) + 1))[: max(size, len(head))]


def identity(found: bytes) -> tuple[str, int]:
    """Who published it, and its number. A body that is not as it was published is a failure."""
    name, number, size, _ = found.split(b":", 3)
    published = payload(name.decode(), int(number), int(size))
    assert found == published, (
        f"message {number!r} of {name!r}: {len(found)} bytes, and they are not what was published"
    )
    return name.decode(), int(number)


def take(client: Client, queue: str, count: int | None) -> list[tuple[str, int, bool]]:
    """Take `count` messages, or all until the queue is empty, and acknowledge them: (publisher, number, redelivered)."""
    taken = []
    while count is None or len(taken) < count:
        client.send_method(1, commands.Basic.Get(queue=queue, no_ack=False))
        answer, payload = receive_get(client)
        if answer is None:
            break
        taken.append((*identity(payload), answer.redelivered))
        client.acknowledge(answer.delivery_tag)
    # A call that is answered after the acknowledgements shows that the node has read them all.
    client.call(1, commands.Basic.Qos(0, 1, False), "Basic.QosOk")
    return taken


def receive_get(client: Client) -> tuple[commands.Basic.GetOk | None, bytes]:
    payload = b""
    answer: commands.Basic.GetOk | None = None
    size = -1
    while True:
        for item in client.receive_items():
            assert item[0] == FRAME, f"waiting for a message: {item!r}"
            _, kind, _, data = item
            if kind == 1:
                _, _, method = frame.unmarshal(b"\x01\x00\x01" + len(data).to_bytes(4, "big") + data + b"\xce")
                if isinstance(method, commands.Basic.GetEmpty):
                    return None, b""
                assert isinstance(method, commands.Basic.GetOk), f"waiting for a message: {method!r}"
                answer = method
            elif kind == 2:
                size = int.from_bytes(data[4:12], "big")
            elif kind == 3:
                payload += data
        if answer is not None and len(payload) == size:
            return answer, payload


def judge(history: QueueHistory, found: list[tuple[str, int, bool]], *, after_crash: bool) -> list[str]:
    """What is wrong with what was found in a queue, in sentences."""
    wrong = []
    for publisher in history.publishers:
        numbers = [number for name, number, _ in found if name == publisher.name]
        acknowledged = history.acknowledged.get(publisher.name, set())
        perhaps = history.perhaps_acknowledged.get(publisher.name, set())
        lost = publisher.confirmed - set(numbers) - acknowledged - perhaps
        if lost:
            wrong.append(
                f"{history.name}: {len(lost)} confirmed messages of {publisher.name} are lost, {sorted(lost)[:5]}"
            )
        if any(late <= early for early, late in itertools.pairwise(numbers)):
            wrong.append(f"{history.name}: messages of {publisher.name} are out of order or twice")
        invented = [number for number in numbers if number > publisher.sent]
        if invented:
            wrong.append(f"{history.name}: {publisher.name} never sent {invented[:5]}")
        back = acknowledged & set(numbers)
        if back:
            wrong.append(
                f"{history.name}: {len(back)} acknowledged messages of {publisher.name} came back, {sorted(back)[:5]}"
            )
    strangers = {name for name, _, _ in found} - {publisher.name for publisher in history.publishers}
    if strangers:
        wrong.append(f"{history.name}: holds messages of {sorted(strangers)}, who do not publish to it")
    if after_crash and any(not redelivered for *_, redelivered in found):
        wrong.append(f"{history.name}: survivors of a crash are not marked redelivered")
    return wrong


def note_acknowledged(history: QueueHistory, found: list[tuple[str, int, bool]], *, certain: bool) -> None:
    """Remember what was acknowledged; it is certain once the node was stopped cleanly afterwards."""
    book = history.acknowledged if certain else history.perhaps_acknowledged
    for name, number, _ in found:
        book.setdefault(name, set()).add(number)
