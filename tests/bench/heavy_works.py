"""Works that hold up an event loop unless it cuts them into slices: what tests/bench/stall.py has a client do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol
from urllib.parse import quote

from pamqp import body, commands, frame, header

from native.frame_split import FRAME
from tests.bench.client import DELIVER, Client
from tests.bench.steady_publisher import Address

MESSAGES = 40_000
QUEUES = 10_000
CONSUMERS = 2_000
CONNECTION_CHANNELS = 2_000
CHANNEL_CONSUMERS = 5
PUBLISHERS = 20
BINDINGS = 20_000
CHANNELS = range(1, 65)  # what is declared on one channel waits for the disk before what comes next
PATIENCE_S = 120.0
LOOK_S = 0.02
PROPERTIES = commands.Basic.Properties
Policy = Callable[[str, str, dict[str, Any] | None], None]


class Api(Protocol):
    """The management API."""

    def __call__(self, method: str, path: str, what: Any = None) -> Any:
        """Ask it for what lies below /api/, and say this; both JSON."""


@dataclass(slots=True)
class Place:
    """The broker under test. `policy` sets one by name, pattern and definition, or clears it."""

    address: Address
    api: Api
    policy: Policy
    listing: Callable[[], object]  # lists the queues in the broker's own way

    @property
    def vhost(self) -> str:
        """In a path."""
        return quote(self.address[2], safe="")


class Work:
    """`prepare` it, `do` it, which is measured, and `clean_up`."""

    def __init__(self, place: Place, scale: float) -> None:
        self.place = place
        self.messages = int(MESSAGES * scale)
        self.queues = int(QUEUES * scale)
        self.consumers = int(CONSUMERS * scale)
        self.bindings = int(BINDINGS * scale)
        self.control = Client(*place.address)

    def prepare(self) -> None:
        raise NotImplementedError

    def do(self) -> None:
        raise NotImplementedError

    def clean_up(self) -> None:
        pass

    # verbs

    def ready(self, queue: str) -> int:
        declared = self.control.call(1, commands.Queue.Declare(queue=queue, passive=True), "Queue.DeclareOk")
        return int(declared.message_count)

    def wait(self, queue: str, count: int) -> None:
        end = time.monotonic() + PATIENCE_S
        while (ready := self.ready(queue)) != count:
            assert time.monotonic() < end, f"queue {queue} has {ready} messages, and was to have {count}"
            time.sleep(LOOK_S)

    def fill(self, queue: str, *, singles: bool = True, **properties: Any) -> None:
        """Messages of 100 bytes. `singles`: neighbours differ, so that each is a run of its own."""
        client = Client(*self.place.address)
        priorities = (0, 1) if singles else (0,)
        units = [unit(queue, PROPERTIES(delivery_mode=2, priority=one, **properties)) for one in priorities]
        client.publish(units, self.messages, 2_000)
        client.close()
        self.wait(queue, self.messages)

    def take(self, queue: str, count: int) -> Client:
        """A client that holds so many messages."""
        client = Client(*self.place.address)
        client.send_method(1, commands.Basic.Consume(queue=queue, consumer_tag="c", nowait=True))
        await_deliveries(client, count)
        return client

    def set_policy(self, pattern: str, **definition: Any) -> None:
        self.place.policy("stall", pattern, {name.replace("_", "-"): value for name, value in definition.items()})


def unit(key: str, properties: PROPERTIES, exchange: str = "", size: int = 100) -> bytes:
    return b"".join(
        [
            frame.marshal(commands.Basic.Publish(exchange=exchange, routing_key=key), 1),
            frame.marshal(header.ContentHeader(0, size, properties), 1),
            frame.marshal(body.ContentBody(b"x" * size), 1),
        ]
    )


def await_deliveries(client: Client, count: int) -> None:
    got = 0
    while got < count:
        got += sum(1 for one in client.receive_items() if one[0] == FRAME and one[1] == 1 and one[3][:4] == DELIVER)


class Redelivery(Work):
    """One long run, of which every second message was acknowledged, is delivered again."""

    def prepare(self) -> None:
        self.control.declare_queue("q")
        self.fill("q", singles=False)
        holder = self.take("q", self.messages)
        acks = [frame.marshal(commands.Basic.Ack(tag), 1) for tag in range(1, self.messages, 2)]
        holder.send(b"".join(acks))
        holder.close()
        self.wait("q", self.messages // 2)

    def do(self) -> None:
        self.taker = self.take("q", self.messages // 2)

    def clean_up(self) -> None:
        self.taker.close()


class Settling(Work):
    """One method settles everything that a client holds."""

    def prepare(self) -> None:
        self.control.declare_queue("q")
        self.fill("q")
        self.holder = self.take("q", self.messages)
        self.holder.call(1, commands.Basic.Cancel("c"), "Basic.CancelOk")


class Nack(Settling):
    def do(self) -> None:
        self.holder.send_method(1, commands.Basic.Nack(0, True, True))
        self.wait("q", self.messages)


class Ack(Settling):
    def do(self) -> None:
        self.holder.send_method(1, commands.Basic.Ack(0, True))
        self.holder.close()


class Gone(Settling):
    def do(self) -> None:
        self.holder.abort()
        self.wait("q", self.messages)


class Reject(Settling):
    """All of it is dead-lettered."""

    def prepare(self) -> None:
        self.control.declare_queue("dead")
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        self.control.declare_queue("q", arguments=arguments)
        self.fill("q")
        self.holder = self.take("q", self.messages)

    def do(self) -> None:
        self.holder.send_method(1, commands.Basic.Nack(0, True, False))
        self.wait("dead", self.messages)


class LengthPolicy(Work):
    """A limit falls on a long queue."""

    definition: ClassVar[dict[str, Any]] = {"max_length": 1}

    def prepare(self) -> None:
        self.control.declare_queue("q")
        self.control.declare_queue("dead")
        self.fill("q")

    def do(self) -> None:
        self.set_policy("^q$", **self.definition)
        self.wait("q", 1)


class LengthPolicyDeadLetters(LengthPolicy):
    definition: ClassVar[dict[str, Any]] = {
        "max_length": 1,
        "dead_letter_exchange": "",
        "dead_letter_routing_key": "dead",
    }

    def do(self) -> None:
        super().do()
        self.wait("dead", self.messages - 1)


class QuorumLengthPolicyDeadLetters(LengthPolicyDeadLetters):
    """The same of a quorum queue."""

    def prepare(self) -> None:
        self.control.declare_queue("q", arguments={"x-queue-type": "quorum"})
        self.control.declare_queue("dead")
        self.fill("q")


class Expiry(Work):
    """Everything behind the head is too old, and the head goes."""

    arguments: ClassVar[dict[str, Any]] = {}

    def prepare(self) -> None:
        self.control.declare_queue("dead")
        self.control.declare_queue("q", arguments=self.arguments)
        self.control.send(unit("q", PROPERTIES(delivery_mode=2, expiration="600000")))
        self.wait("q", 1)
        self.messages -= 1
        client = Client(*self.place.address)
        units = [unit("q", PROPERTIES(delivery_mode=2, priority=one, expiration="1000")) for one in (0, 1)]
        client.publish(units, self.messages, 2_000)
        client.close()
        time.sleep(1.2)  # until they are too old; nothing tells so

    def do(self) -> None:
        self.control.call(1, commands.Basic.Get(queue="q", no_ack=True), "Basic.GetOk")
        self.wait("q", 0)


class ExpiryDeadLetters(Expiry):
    arguments: ClassVar[dict[str, Any]] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}

    def do(self) -> None:
        super().do()
        self.wait("dead", self.messages)


class Purge(Work):
    def prepare(self) -> None:
        self.control.declare_queue("q")
        self.fill("q")

    def do(self) -> None:
        self.control.call(1, commands.Queue.Purge(queue="q"), "Queue.PurgeOk")


class Delete(Purge):
    def do(self) -> None:
        self.control.call(1, commands.Queue.Delete(queue="q"), "Queue.DeleteOk")


class Declare(Work):
    """Many queues."""

    def prepare(self) -> None:
        for channel in CHANNELS[1:]:
            self.control.call(channel, commands.Channel.Open(), "Channel.OpenOk")

    def do(self) -> None:
        declares = [commands.Queue.Declare(queue=f"q{one}", durable=True, nowait=True) for one in range(self.queues)]
        spread = [frame.marshal(one, CHANNELS[at % len(CHANNELS)]) for at, one in enumerate(declares)]
        self.control.send(b"".join(spread))
        for channel in CHANNELS:
            declare = commands.Queue.Declare(queue=f"last{channel}", durable=True)
            self.control.call(channel, declare, "Queue.DeclareOk")


class OverQueues(Work):
    """Something that concerns many queues."""

    exclusive = False

    def prepare(self) -> None:
        self.owner = Client(*self.place.address)
        for channel in CHANNELS[1:]:
            self.owner.call(channel, commands.Channel.Open(), "Channel.OpenOk")
        for one in range(self.queues):
            declare = commands.Queue.Declare(
                queue=f"q{one}", durable=not self.exclusive, exclusive=self.exclusive, nowait=True
            )
            self.owner.send_method(CHANNELS[one % len(CHANNELS)], declare)
        for channel in CHANNELS:
            declare = commands.Queue.Declare(queue=f"last{channel}", durable=True)
            self.owner.call(channel, declare, "Queue.DeclareOk")


class PolicyOverQueues(OverQueues):
    def do(self) -> None:
        self.set_policy("^q", max_length=1_000)


class DeleteQueues(OverQueues):
    def do(self) -> None:
        deletes = [commands.Queue.Delete(queue=f"q{one}", nowait=True) for one in range(self.queues)]
        spread = [frame.marshal(one, CHANNELS[at % len(CHANNELS)]) for at, one in enumerate(deletes)]
        self.owner.send(b"".join(spread))
        for channel in CHANNELS:
            self.owner.call(channel, commands.Queue.Delete(queue=f"last{channel}"), "Queue.DeleteOk")


class ListQueues(OverQueues):
    """With what each of them holds."""

    def do(self) -> None:
        listed = self.place.api("GET", f"queues/{self.place.vhost}")
        assert len(listed) >= self.queues, f"{len(listed)} queues are listed"


class ListQueuesForOperators(OverQueues):
    def do(self) -> None:
        self.place.listing()


class ExportDefinitions(OverQueues):
    def do(self) -> None:
        exported = self.place.api("GET", f"definitions/{self.place.vhost}")
        assert len(exported["queues"]) >= self.queues, f"{len(exported['queues'])} queues are exported"


class ImportDefinitions(ExportDefinitions):
    """Of queues of which every second one is there already, each with a binding."""

    def do(self) -> None:
        queues = [f"{'q' if one % 2 else 'new'}{one}" for one in range(self.queues)]
        declared = {"durable": True, "auto_delete": False, "arguments": {}}
        bound = {"source": "amq.direct", "destination_type": "queue", "arguments": {}}
        definitions = {
            "queues": [{"name": name, **declared} for name in queues],
            "bindings": [{"destination": name, "routing_key": name, **bound} for name in queues],
        }
        self.place.api("POST", f"definitions/{self.place.vhost}", definitions)


class DeleteVhost(OverQueues):
    """With its queues."""

    def prepare(self) -> None:
        self.place.api("PUT", "vhosts/crowded", {})
        self.place.api("PUT", "permissions/crowded/guest", {"configure": ".*", "write": ".*", "read": ".*"})
        definitions = {
            "queues": [
                {"name": f"q{one}", "durable": True, "auto_delete": False, "arguments": {}}
                for one in range(self.queues)
            ]
        }
        self.place.api("POST", "definitions/crowded", definitions)

    def do(self) -> None:
        self.place.api("DELETE", "vhosts/crowded")


class FanOut(OverQueues):
    """One message to all of them."""

    def prepare(self) -> None:
        super().prepare()
        for one in range(self.queues):
            bind = commands.Queue.Bind(queue=f"q{one}", exchange="amq.fanout", nowait=True)
            self.owner.send_method(CHANNELS[one % len(CHANNELS)], bind)
        for channel in CHANNELS:
            bind = commands.Queue.Bind(queue=f"last{channel}", exchange="amq.fanout")
            self.owner.call(channel, bind, "Queue.BindOk")

    def do(self) -> None:
        self.control.send(unit("", PROPERTIES(delivery_mode=2), "amq.fanout"))
        self.wait(f"q{self.queues - 1}", 1)


class SettleOverQueues(FanOut):
    """What a client holds of all of them is acknowledged at once."""

    def prepare(self) -> None:
        super().prepare()
        super().do()
        self.holder = Client(*self.place.address)
        for one in range(self.queues):
            consume = commands.Basic.Consume(queue=f"q{one}", consumer_tag=f"c{one}", nowait=True)
            self.holder.send_method(1, consume)
        await_deliveries(self.holder, self.queues)

    def do(self) -> None:
        self.holder.send_method(1, commands.Basic.Ack(0, True))
        self.holder.call(1, commands.Basic.Qos(0, 10, False), "Basic.QosOk")


class ReturnOverQueues(SettleOverQueues):
    """The same goes back to all of them, and is delivered again."""

    def do(self) -> None:
        self.holder.send_method(1, commands.Basic.Nack(0, True, True))
        await_deliveries(self.holder, self.queues)


class Publish(Work):
    """Messages that differ, as fast as the socket takes them."""

    def prepare(self) -> None:
        self.control.declare_queue("q")

    def do(self) -> None:
        pair = b"".join([unit("q", PROPERTIES(delivery_mode=2, priority=one)) for one in (0, 1)])
        self.publisher = Client(*self.place.address)
        self.publisher.send(pair * (self.messages // 2))
        self.wait("q", self.messages)


class Publishers(Publish):
    """The same from many connections at once."""

    def do(self) -> None:
        pair = b"".join([unit("q", PROPERTIES(delivery_mode=2, priority=one)) for one in (0, 1)])
        units = pair * (self.messages // PUBLISHERS // 2)
        clients = [Client(*self.place.address) for _ in range(PUBLISHERS)]
        threads = [threading.Thread(target=one.send, args=(units,)) for one in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.wait("q", self.messages // PUBLISHERS // 2 * 2 * PUBLISHERS)
        self.publishers = clients


class ExclusiveQueues(OverQueues):
    exclusive = True

    def do(self) -> None:
        self.owner.abort()
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            probe = Client(*self.place.address)
            probe.send_method(1, commands.Queue.Declare(queue=f"q{self.queues - 1}", passive=True))
            try:
                probe.receive_method(1, "Channel.Close")
            except Exception:  # it is there, and locked or not
                probe.abort()
                time.sleep(LOOK_S)
            else:
                probe.abort()
                return


class Consumers(Work):
    """A connection with many consumers on one channel goes."""

    channels = range(1, 2)

    def prepare(self) -> None:
        self.control.declare_queue("q")
        self.holder = Client(*self.place.address)
        for channel in self.channels[1:]:
            self.holder.call(channel, commands.Channel.Open(), "Channel.OpenOk")
        for channel in self.channels:
            for one in range(self.consumers // len(self.channels)):
                self.holder.send_method(channel, commands.Basic.Consume(queue="q", consumer_tag=f"c{one}", nowait=True))
            self.holder.call(channel, commands.Basic.Qos(0, 10, False), "Basic.QosOk")

    def do(self) -> None:
        self.holder.abort()
        end = time.monotonic() + PATIENCE_S
        passive = commands.Queue.Declare(queue="q", passive=True)
        while self.control.call(1, passive, "Queue.DeclareOk").consumer_count:
            assert time.monotonic() < end, "its consumers stay"
            time.sleep(LOOK_S)


class Channels(Consumers):
    """A connection with many channels goes, each with as many consumers."""

    def __init__(self, place: Place, scale: float) -> None:
        super().__init__(place, scale)
        self.channels = range(1, int(CONNECTION_CHANNELS * scale) + 1)
        self.consumers = CHANNEL_CONSUMERS * len(self.channels)


class Headers(Work):
    """Messages that differ come to an exchange with many bindings."""

    def prepare(self) -> None:
        self.control.call(1, commands.Exchange.Declare(exchange="h", exchange_type="headers"), "Exchange.DeclareOk")
        self.control.declare_queue("q")
        for channel in CHANNELS[1:]:
            self.control.call(channel, commands.Channel.Open(), "Channel.OpenOk")
        for one in range(self.bindings):
            arguments = {"x-match": "all" if one % 2 else "any", "number": one, f"key{one % 7}": str(one)}
            bind = commands.Queue.Bind(queue="q", exchange="h", arguments=arguments, nowait=True)
            self.control.send_method(CHANNELS[one % len(CHANNELS)], bind)
        for channel in CHANNELS:
            self.control.call(channel, commands.Queue.Declare(queue="q", durable=True), "Queue.DeclareOk")

    def do(self) -> None:
        units = [unit("", PROPERTIES(headers={"number": one, "other": str(one)}), "h") for one in range(200)]
        self.control.send(b"".join(units))
        self.wait("q", 100)  # those that want any; the others want another header, too


WORKS: dict[str, type[Work]] = {
    "redelivery": Redelivery,
    "nack of many": Nack,
    "ack of many": Ack,
    "reject of many": Reject,
    "connection gone with unacked": Gone,
    "length policy": LengthPolicy,
    "length policy, dead letters": LengthPolicyDeadLetters,
    "quorum dead letters": QuorumLengthPolicyDeadLetters,
    "expiry": Expiry,
    "expiry, dead letters": ExpiryDeadLetters,
    "purge": Purge,
    "delete": Delete,
    "publish": Publish,
    "publishers": Publishers,
    "fan-out": FanOut,
    "ack over queues": SettleOverQueues,
    "nack over queues": ReturnOverQueues,
    "queues declared": Declare,
    "policy over queues": PolicyOverQueues,
    "queues deleted": DeleteQueues,
    "queues listed over HTTP": ListQueues,
    "queues listed": ListQueuesForOperators,
    "definitions exported": ExportDefinitions,
    "definitions imported": ImportDefinitions,
    "virtual host deleted": DeleteVhost,
    "exclusive queues gone": ExclusiveQueues,
    "consumers gone": Consumers,
    "channels gone": Channels,
    "headers exchange": Headers,
}
