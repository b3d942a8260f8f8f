"""Names of what clients declare: which are allowed, which are ours, how an error text says them.

Client libraries and their tests read some of these texts, so they are RabbitMQ's to the letter.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode

from broker.errors import AccessRefused, NotFound, PreconditionFailed, QueueAway

NAME_BYTES_MAX = 255
DEFAULT_EXCHANGE = ""
# The name under which permissions see the default exchange.
DEFAULT_EXCHANGE_ALIAS = "amq.default"
DIRECT_REPLY_TO = "amq.rabbitmq.reply-to"
RESERVED_PREFIX = "amq."
# Of the queue in which the messages of an x-delayed-message exchange wait; the exchange's name follows.
HOLDING_PREFIX = "amq.delayed."
# The same for a queue that delays messages by their headers; the queue's name follows.
QUEUE_HOLDING_PREFIX = "amq.delayed-queue."
# Of the quorum queue that a classic queue is to become; the name of the classic one follows.
BECOMING_PREFIX = "amq.becoming."
_SERVER_NAMED_BYTES = 16


def clean(name: str) -> str:
    """A name as it is kept: CR and LF are stripped, for names end up in logs and in text protocols."""
    if "\r" in name or "\n" in name:
        return name.replace("\r", "").replace("\n", "")
    return name


def check_length(kind: str, name: str) -> None:
    """AMQP cannot say a longer name; other protocols must not create one."""
    size = len(name.encode("utf-8", "surrogateescape"))
    if size > NAME_BYTES_MAX:
        raise PreconditionFailed(f"{kind} name of {size} bytes is longer than {NAME_BYTES_MAX}: '{name[:40]}...'")


def check_name(kind: str, name: str) -> None:
    """Of what everybody may name as they like."""
    if not name:
        raise PreconditionFailed(f"a {kind} needs a name")
    check_length(kind, name)
    if clean(name) != name:
        raise PreconditionFailed(f"{kind} name {name!r} contains a line break")


def labelled(kind: str, name: str, vhost: str) -> str:
    """`queue 'orders' in vhost '/'`."""
    return f"{kind} '{name}' in vhost '{vhost}'"


def is_reserved(name: str) -> bool:
    return name.startswith(RESERVED_PREFIX)


def check_not_reserved(kind: str, name: str) -> None:
    """Only the broker makes names that begin with amq."""
    if is_reserved(name):
        raise AccessRefused(f"{kind} name '{name}' contains reserved prefix 'amq.*'")


def holding_queue(exchange: str) -> str:
    """The queue in which the messages of this delayed exchange wait."""
    return HOLDING_PREFIX + exchange


def holding_queue_of(queue: str) -> str:
    """The queue in which messages wait that this one delays."""
    return QUEUE_HOLDING_PREFIX + queue


def is_holding(queue: str) -> bool:
    """Whether a queue of this name keeps messages that are to go on later."""
    return queue.startswith((HOLDING_PREFIX, QUEUE_HOLDING_PREFIX))


def delayed_exchange(queue: str) -> str | None:
    """The exchange whose messages wait in this queue."""
    return queue.removeprefix(HOLDING_PREFIX) if queue.startswith(HOLDING_PREFIX) else None


def delayed_queue(queue: str) -> str | None:
    """The queue whose messages wait in this queue."""
    return queue.removeprefix(QUEUE_HOLDING_PREFIX) if queue.startswith(QUEUE_HOLDING_PREFIX) else None


def held_for(queue: str) -> str:
    """Whose messages wait in this queue: `exchange 'later'`, or `queue 'orders'`."""
    exchange = delayed_exchange(queue)
    return f"exchange '{exchange}'" if exchange is not None else f"queue '{delayed_queue(queue)}'"


def becoming_queue(queue: str) -> str:
    """The quorum queue that this classic queue is to become, until it is."""
    return BECOMING_PREFIX + queue


def is_becoming(queue: str) -> bool:
    return queue.startswith(BECOMING_PREFIX)


def final_name(queue: str) -> str:
    """As the queue will be called, and as policies know it already."""
    return queue.removeprefix(BECOMING_PREFIX)


def is_of_the_broker(queue: str) -> bool:
    """Whether only the broker reads and writes it."""
    return is_holding(queue) or is_becoming(queue)


def check_for_clients(queue: str) -> None:
    """Clients neither read nor write what the broker keeps for itself."""
    if is_holding(queue):
        raise AccessRefused(f"queue '{queue}' keeps the delayed messages of {held_for(queue)}: it is not for clients")
    if is_becoming(queue):
        raise AccessRefused(
            f"queue '{queue}' is what queue '{final_name(queue)}' is converted to: it is not for clients"
        )


def check_not_default_exchange(name: str) -> None:
    """The default exchange cannot be declared, deleted, bound or unbound."""
    if name == DEFAULT_EXCHANGE:
        raise AccessRefused("operation not permitted on the default exchange")


def check_deletable_exchange(name: str, vhost: str) -> None:
    """The predeclared exchanges stay, and no name like theirs is ever deleted."""
    check_not_default_exchange(name)
    if is_reserved(name):
        raise AccessRefused(f"deletion of system {labelled('exchange', name, vhost)} not allowed")


def not_found(kind: str, name: str, vhost: str) -> NotFound:
    return NotFound(f"no {labelled(kind, name, vhost)}")


def not_open(name: str, vhost: str) -> QueueAway:
    """Of a queue that is declared, and not open on this node."""
    return QueueAway(f"{labelled('queue', name, vhost)} is being opened on this node: try again")


def server_named(random: bytes) -> str:
    """A queue name made by the broker, from 16 random bytes."""
    return _unguessable("amq.gen-", random)


def server_consumer_tag(random: bytes) -> str:
    return _unguessable("amq.ctag-", random)


def _unguessable(prefix: str, random: bytes) -> str:
    assert len(random) == _SERVER_NAMED_BYTES, f"{len(random)} random bytes for a name, not {_SERVER_NAMED_BYTES}"
    return prefix + urlsafe_b64encode(random).rstrip(b"=").decode()
