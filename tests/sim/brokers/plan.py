"""What a seed stands for in a cluster of brokers: the shape and all limits, the queues, the faults, what clients ask for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.sim.plan import FAULTS_BEFORE_HEALING_S, RECIPES, SECONDS, Ask, Fault, Plan, Recipe, Shape, draw_faults

QUORUM = {"x-queue-type": "quorum", "x-consumer-disconnected-timeout": 3000}
DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
AT_LEAST_ONCE = {**DEAD, "x-overflow": "reject-publish", "x-dead-letter-strategy": "at-least-once"}
PROFILES: dict[str, dict[str, Any]] = {
    "plain": {"x-delivery-limit": -1},
    "limited": {**DEAD, "x-delivery-limit": 2},
    "careful": {**AT_LEAST_ONCE, "x-delivery-limit": 1},
    "short": {"x-max-length": 5, "x-delivery-limit": -1},
    "full": {"x-max-length": 5, "x-overflow": "reject-publish"},
    "fleeting": {"x-message-ttl": 700},
    "mourned": {**AT_LEAST_ONCE, "x-message-ttl": 700},
    "single": {"x-single-active-consumer": True, "x-delivery-limit": -1},
    "late": {"x-consumer-timeout": 1500, "x-delivery-limit": -1},
    "again": {"x-delayed-retry-type": "all", "x-delayed-retry-min": 300, "x-delayed-retry-max": 900},
    "orderly": {"x-requeue-order": "in-place", "x-delivery-limit": -1},
}
TARGET = "dead"
CLASSIC_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "classic-dead"}
CLASSIC_PROFILES: dict[str, dict[str, Any]] = {
    "classic-plain": {},
    "classic-short": {"x-max-length": 5},
    "classic-full": {"x-max-length": 5, "x-overflow": "reject-publish"},
    "classic-heavy": {"x-max-length-bytes": 900, "x-overflow": "reject-publish"},
    "classic-fleeting": {"x-message-ttl": 700},
    "classic-mourned": {**CLASSIC_DEAD, "x-message-ttl": 700},
    "classic-limited": {**CLASSIC_DEAD, "x-max-length": 5},
    "classic-ranked": {"x-max-priority": 5},
    "classic-careful": {**CLASSIC_DEAD},
}
CLASSIC_TARGET = "classic-dead"
EVERYWHERE = "everywhere"  # an exchange that leads to several queues at once
# How it is bound to each of them, always twice: a queue has a message once, however many of its bindings match.
CAST_KEYS = {"fanout": ("", "other"), "topic": ("#", "k.*"), "direct": ("k.1", "k.1")}
CAST_KEY = "k.1"


# Dead letters that are refused: by targets that have room for a few, and for want of the exchange that leads to their target.
NARROW, CLASSIC_NARROW, GRAVES = "narrow", "classic-narrow", "graves"
FULL_SOON = {"x-max-length": 6, "x-overflow": "reject-publish"}
REFUSED_PROFILES: dict[str, dict[str, Any]] = {
    "refused": {**AT_LEAST_ONCE, "x-dead-letter-routing-key": NARROW, "x-delivery-limit": 1},
    "refused-late": {**AT_LEAST_ONCE, "x-dead-letter-routing-key": NARROW, "x-message-ttl": 700},
    "refused-far": {**AT_LEAST_ONCE, "x-dead-letter-routing-key": CLASSIC_NARROW, "x-message-ttl": 700},
    "refused-once": {**DEAD, "x-dead-letter-routing-key": NARROW, "x-message-ttl": 700},
    "buried": {**AT_LEAST_ONCE, "x-dead-letter-exchange": GRAVES, "x-message-ttl": 700},
    "buried-once": {**DEAD, "x-dead-letter-exchange": GRAVES, "x-delivery-limit": 1, "x-message-ttl": 2000},
}
TURNING = ("turning-1", "turning-2", "turning-3", "turning-4")  # classic queues that become quorum queues
BEFORE_FAULT_S = 0.1  # a conversion is asked for
STREAM = {"x-queue-type": "stream"}
SUPER_STREAM = "super-stream"  # an exchange that all streams are bound to
SMALL_SEGMENTS = {"x-stream-max-segment-size-bytes": 500}
STREAM_PROFILES: dict[str, dict[str, Any]] = {
    "stream-plain": SMALL_SEGMENTS,
    "stream-short": {**SMALL_SEGMENTS, "x-max-length-bytes": 1500},
    "stream-brief": {**SMALL_SEGMENTS, "x-max-age": "3s"},
    "stream-long": {},
}
# Queues that are declared, deleted, and declared again under the same name.
LIVES: dict[str, dict[str, Any]] = {
    "guest": {"x-delivery-limit": -1},
    "classic-guest": {},
    "stream-guest": {**SMALL_SEGMENTS, "x-max-length-bytes": 1500},
}
ALL_PROFILES = {
    **PROFILES,
    **REFUSED_PROFILES,
    "guest": LIVES["guest"],
    TARGET: {},
    NARROW: {**FULL_SOON, "x-delivery-limit": -1},
}
ALL_CLASSIC_PROFILES = {
    **CLASSIC_PROFILES,
    "classic-guest": LIVES["classic-guest"],
    CLASSIC_TARGET: {},
    CLASSIC_NARROW: FULL_SOON,
}
ALL_STREAM_PROFILES = {**STREAM_PROFILES, "stream-guest": LIVES["stream-guest"]}


def _arguments_of(name: str) -> dict[str, Any]:
    return next(profiles[name] for profiles in _PROFILES_OF_KINDS if name in profiles)


_PROFILES_OF_KINDS = (ALL_CLASSIC_PROFILES, ALL_PROFILES, ALL_STREAM_PROFILES)


def target_of(name: str) -> str | None:
    """The queue that gets the dead letters of this one."""
    target: str | None = _arguments_of(name).get("x-dead-letter-routing-key")
    return target


def drops(name: str) -> bool:
    """Whether a queue lets go of what is too much for its limit of length."""
    arguments = _arguments_of(name)
    return not {"x-max-length", "x-max-length-bytes"}.isdisjoint(arguments) and "x-overflow" not in arguments


@dataclass(frozen=True)
class BrokerShape(Shape):
    """The cluster, its queues (names of PROFILES, joined by +), and how clients are."""

    queues: str = "plain"
    classics: str = ""  # names of CLASSIC_PROFILES
    publishers: int = 2
    takers: int = 3
    no_ack: int = 0  # whether some consumers acknowledge nothing
    priorities: int = 0
    expiring: float = 0.0  # share of messages that have a time to live of their own
    ram: int = 0  # nodes behind the voters that keep the catalog in memory only
    silence_s: float = 4.0  # until a link on which nothing is heard is ended
    reconcile: int = 0  # whether queues that have fewer members than they should grow by themselves
    steps_max: int = 1000  # of what brokers do in slices, in one turn
    queues_per_step: int = 1000  # that get a message in one of them
    classic_embed_below: int = 64
    classic_sequences_per_segment: int = 16
    classic_store_file_bytes: int = 8192
    classic_runs_max: int = 8
    classic_ram_count_max: int = 16
    transient: float = 0.0  # share of messages to classic queues that are not persistent
    cast: str = ""  # names of queues that are bound to EVERYWHERE
    cast_by: str = "fanout"  # the type of that exchange
    committers: int = 0  # publishers that publish in transactions
    settlers: int = 0  # takers that settle in transactions
    guests: str = ""  # names of LIVES
    streams: str = ""  # names of STREAM_PROFILES
    readers: int = 0  # consumers of streams
    converted: str = ""  # names of classic queues that become quorum queues
    writers: int = 0  # publishers of the stream protocol
    chunk_readers: int = 0  # that read whole chunks

    @property
    def nodes(self) -> int:
        return self.voters + self.spare + self.ram

    @property
    def queue_names(self) -> list[str]:
        return self.queues.split("+")

    @property
    def classic_names(self) -> list[str]:
        return self.classics.split("+") if self.classics else []

    @property
    def stream_names(self) -> list[str]:
        return self.streams.split("+") if self.streams else []

    @property
    def converted_names(self) -> list[str]:
        return self.converted.split("+") if self.converted else []

    @property
    def refusing_names(self) -> list[str]:
        """Targets of dead letters that may be full."""
        return [target for target in (NARROW, CLASSIC_NARROW) if target in map(target_of, self.queue_names)]

    @property
    def buries(self) -> bool:
        """Whether an exchange for dead letters comes and goes."""
        return any(ALL_PROFILES[name].get("x-dead-letter-exchange") == GRAVES for name in self.queue_names)

    @property
    def guest_names(self) -> list[str]:
        return self.guests.split("+") if self.guests else []

    @property
    def cast_names(self) -> list[str]:
        return self.cast.split("+") if self.cast else []


OWN_RECIPES: tuple[Recipe, ...] = (
    # clients
    Recipe("connection dies", weight=2.0),
    Recipe("publisher moves", weight=2.0),
    Recipe("consumer stalls", (0.5, 6), weight=1.5),
    # links
    Recipe("damaged bytes", (0.5, 6), (0.005, 0.2), weight=1.5),
    # the disk
    Recipe("no room beside the log", (0.5, 6), (0.5, 12), weight=2.0, leader=0.0),
    # operators
    Recipe("drain", (1, 6)),
    Recipe("grow queue", weight=1.5, leader=0.0),
    Recipe("shrink queue", weight=1.5),
    Recipe("forget node", (0.5, 4), weight=0.3, leader=0.2),
    Recipe("policy", weight=1.5),
)
NOT_OURS = ("add member", "add learner", "promote", "remove member")
BROKER_RECIPES = (*(recipe for recipe in RECIPES if recipe.kind not in NOT_OURS), *OWN_RECIPES)
# About the moments of conversions: drawn with them, see `_draw_around`.
AROUND_CONVERSIONS = (
    Recipe("catalog out of reach", (0.5, 5), leader=0.0),
    Recipe("end in mid change", (0.1, 3), (0.0, 0.03), weight=2.0),
)
BROKER_KINDS = tuple(recipe.kind for recipe in (*BROKER_RECIPES, *AROUND_CONVERSIONS))
LINKED = (
    "loss", "duplication", "reorder", "delay", "clog", "one way cut", "halves", "isolate", "isolate leader", "flapping",
    "swizzle", "reset", "damaged bytes", "drain", "transfer",
)  # fmt: skip
OF_SEVERAL = ("bridge", "catalog out of reach", "forget node", "shrink queue", "grow queue")
NODES_MIN = dict.fromkeys(LINKED, 2) | dict.fromkeys(OF_SEVERAL, 3) | {"ring": 4}
OF_CLASSIC_HOMES = ("no room beside the log",)
# How close faults follow each other, more or less. Where they are dense each is over sooner, so that nodes get on in between.
GAPS_S = (0.05, 0.05, 0.1, 0.1, 0.2)
FULL_SPAN_GAP_S = 0.4
HEALED_S = 7.0
SPAN_MIN = 0.2  # of what a recipe says


def draw(seed: int, seconds: float = SECONDS) -> Plan:
    """The world of a seed."""
    random = Random(f"brokers of {seed}")
    shape = replace(_draw_shape(random), seconds=seconds)
    shape = replace(shape, ram=Random(f"RAM nodes of {seed}").choice((0, 0, 1)) if shape.voters > 1 else 0)
    faults = _draw_faults(random, shape)
    asks = tuple(_draw_asks(random, shape))
    others = Random(f"other clients of {seed}")  # of their own, so that worlds stay what they were without these
    shape = _with_other_clients(others, shape)
    other_asks = tuple(_draw_other_asks(others, shape))
    streaming = Random(f"streams of {seed}")
    shape = _with_streams(streaming, shape)
    stream_asks = tuple(_draw_stream_asks(streaming, shape))
    clients = Random(f"clients of the stream protocol of {seed}")
    shape = _with_stream_clients(clients, shape)
    client_asks = tuple(_draw_client_asks(clients, shape))
    conversions = Random(f"conversions of {seed}")
    shape = replace(shape, converted="+".join(TURNING[: conversions.choice((0, 2, 4))]))
    converting = tuple(_draw_conversions(conversions, shape, faults))
    faults += tuple(_draw_around(conversions, shape, converting))
    return Plan(seed, shape, faults, (*asks, *other_asks, *stream_asks, *client_asks, *converting), "brokers")


def _with_other_clients(random: Random, shape: BrokerShape) -> BrokerShape:
    """That use transactions, that publish to several queues at once, and whose dead letters are refused."""
    names = [*shape.queue_names, *shape.classic_names]
    several = random.sample(names, min(len(names), random.choice((2, 2, 3))))
    refused = random.sample(list(REFUSED_PROFILES), random.choice((0, 0, 1, 2)))
    return replace(
        shape,
        queues="+".join([*shape.queue_names, *refused]),
        cast="+".join(several) if len(several) > 1 and random.random() < 0.7 else "",
        cast_by=random.choice(list(CAST_KEYS)),
        committers=random.choice((0, 1, 1)),
        settlers=random.choice((0, 0, 1)),
        guests=random.choice(("", "", "guest+classic-guest", "guest", "classic-guest")),
    )


def _with_streams(random: Random, shape: BrokerShape) -> BrokerShape:
    """In two worlds of three. The exchange that leads to several queues leads to a stream, too, now and then."""
    names = random.sample(list(STREAM_PROFILES), random.choice((0, 1, 1)))
    guests = [*shape.guest_names, *(["stream-guest"] if random.random() < 0.2 else [])]
    casts = names if shape.cast and random.random() < 0.3 else []
    return replace(
        shape,
        streams="+".join(names),
        readers=random.randint(2, 3) if names or "stream-guest" in guests else 0,
        guests="+".join(guests),
        cast="+".join([*shape.cast_names, *casts]),
    )


def _with_stream_clients(random: Random, shape: BrokerShape) -> BrokerShape:
    """Where there are streams, mostly."""
    if not shape.stream_names or random.random() < 0.2:
        return shape
    return replace(shape, writers=random.randint(1, 3), chunk_readers=random.randint(2, 5))


def _draw_faults(random: Random, shape: BrokerShape) -> tuple[Fault, ...]:
    gap_s = random.choice(GAPS_S)
    share = min(1.0, max(SPAN_MIN, gap_s / FULL_SPAN_GAP_S))
    faults = draw_faults(random, shape, [recipe for recipe in BROKER_RECIPES if _can_happen(recipe, shape)], (gap_s,))
    return tuple(replace(fault, span=round(fault.span * share, 3)) for fault in faults)


def _can_happen(recipe: Recipe, shape: BrokerShape) -> bool:
    """Whether this cluster has what faults of the kind are about."""
    if recipe.kind in OF_CLASSIC_HOMES and not shape.classics:
        return False
    return shape.nodes >= NODES_MIN.get(recipe.kind, 1)


def _draw_shape(random: Random) -> BrokerShape:
    voters = random.choices((1, 3, 5), (8, 72, 20))[0]
    election_min_s = random.choice((0.1, 0.15, 0.3))
    names = random.sample(list(PROFILES), random.choice((1, 1, 2, 3)))
    classics = random.sample(list(CLASSIC_PROFILES), random.choice((0, 1, 1, 2)))
    shape = BrokerShape(
        voters=voters,
        spare=0,
        groups=0,
        frail=random.randint(0, min(1, voters - 1)),  # a minority of the three members that queues begin with
        queues="+".join(names),
        classics="+".join(classics),
        transient=random.choice((0.0, 0.2)),
        publishers=random.randint(1, 3),
        takers=random.randint(2, 4),
        no_ack=random.choice((0, 0, 1)),
        priorities=random.choice((0, 0, 1)),
        expiring=random.choice((0.0, 0.0, 0.2)),
        reconcile=random.choice((0, 1)),
        silence_s=random.choice((1.0, 3.0, 8.0)),
        net_delay_s=random.choice((0.0003, 0.001, 0.005)),
        fsync_s=random.choice((0.0, 0.001, 0.004)),
        job_s=random.choice((0.0, 0.005, 0.05)),
        tick_s=random.choice((0.1, 0.2)),
        ping_interval_s=random.choice((0.3, 0.5)),
        pings_missed=random.choice((2, 3, 4)),
        election_min_s=election_min_s,
        election_max_s=election_min_s * random.choice((2, 4)),
        resend_s=random.choice((0.2, 0.5)),
        all_must_heal=random.choice((0, 1)),
        healed_s=HEALED_S,
        seeks=1,
    )
    return replace(shape, **_draw_limits(random))


def _draw_limits(random: Random) -> dict[str, Any]:
    return {
        "file_bytes_max": random.choice((1 << 12, 1 << 13, 1 << 14, 1 << 16)),
        "segment_entries_max": random.choice((8, 16, 64)),
        "log_files_kept": random.choice((0, 0, 1, 2)),
        "entries_kept": random.choice((0, 2, 10, 30)),
        "memory_bytes_max": random.choice((200, 1000, 10_000)),
        "open_segments_max": random.choice((1, 2, 8)),
        "small_segments_max": random.choice((1, 3, 8)),
        "compaction_interval_ms": random.choice((500, 3000)),
        "snapshot_entries_max": random.choice((10, 20, 50, 200)),
        "append_bytes_max": random.choice((400, 2000, 20_000)),
        "window_bytes_max": random.choice((2000, 20_000)),
        "window_messages_max": random.choice((2, 8)),
        "catch_up_bytes_max": random.choice((400, 2000)),
        "catch_up_messages_max": random.choice((1, 4)),
        "commit_news_s": random.choice((0.0, 0.01)),
        "uncommitted_bytes_max": random.choice((4000, 50_000)),
        "apply_bytes_max": random.choice((500, 5000)),
        "snapshot_chunk_bytes": random.choice((200, 1000)),
        "snapshot_part_bytes": 20_000,  # as each part takes a job, and jobs their time
        "snapshot_window_chunks": random.choice((1, 2, 4)),
        "promote_lag_entries": random.choice((0, 2, 10)),
        "classic_sequences_per_segment": random.choice((8, 16, 64)),
        "steps_max": random.choice((1, 5, 1000)),
        "queues_per_step": random.choice((1, 1000)),
        "classic_store_file_bytes": random.choice((500, 1000, 3000)),
        "classic_runs_max": random.choice((2, 8)),
        "classic_ram_count_max": random.choice((4, 16, 200)),
    }


ASKS = ("publish", "burst", "consume", "get", "leave", "purge", "exchange", "bind")
CHANCES = (50, 4, 14, 8, 5, 0.4, 3, 3)
UNDER_A_POLICY = 12  # publishes
OF_CLASSIC_QUEUES = {"policy": 3.0, "burst": 6.0, "leave": 8.0}  # where there are some: backlogs that go to their files


def _draw_asks(random: Random, shape: BrokerShape) -> Iterator[Ask]:
    """A client is a publisher, a taker or the operator, by what is asked for."""
    gap_s = random.choice((0.1, 0.2, 0.4))
    names = [*shape.queue_names, *shape.classic_names]
    chances = dict(zip(ASKS, CHANCES, strict=True)) | (OF_CLASSIC_QUEUES if shape.classics else {})
    kinds, weights = list(chances), list(chances.values())
    for taker in range(1, shape.takers + 1):
        yield Ask(0.1, taker, 0, "consume", random.choice(names), 0)
    at = 0.2
    while at < shape.seconds - 4:
        kind = random.choices(kinds, weights)[0]
        most = shape.publishers if kind in ("publish", "burst") else shape.takers
        key = random.choice(names)
        yield Ask(round(at, 3), random.randint(1, most), 0, kind, key, random.choice((20, 40, 200)))
        if kind == "policy":  # under publishes that come while nodes hear of it
            publisher, key = random.randint(1, shape.publishers), random.choice(shape.classic_names)
            for after in range(UNDER_A_POLICY):
                kind = random.choice(("publish", "publish", "burst"))
                yield Ask(round(at + after * 0.003, 3), publisher, 0, kind, key, random.choice((20, 40, 200)))
        at += random.expovariate(1 / gap_s)


def _draw_other_asks(random: Random, shape: BrokerShape) -> Iterator[Ask]:
    """Publishes of those who publish elsewhere, too, and of those who commit; who settles in transactions consumes. Queues
    whose dead letters are refused are used like others, their targets just now and then."""
    dying = [name for name in shape.queue_names if name in REFUSED_PROFILES]
    names = [*shape.queue_names, *shape.classic_names]
    casts = [EVERYWHERE] if shape.cast else []
    committers = range(shape.publishers + 1, shape.publishers + shape.committers + 1)
    settlers = range(shape.takers + 1, shape.takers + shape.settlers + 1)
    gap_s = random.choice((0.3, 0.6))
    at = 0.3
    while at < shape.seconds - 4:
        if casts:
            yield _publish(random, at, random.randint(1, shape.publishers), EVERYWHERE)
        for committer in committers:
            yield _publish(random, at, committer, random.choice([*names, *casts, *casts]))
        for settler in settlers:
            kind = random.choices(("consume", "get", "leave"), (6, 3, 1))[0]
            yield Ask(round(at, 3), settler, 0, kind, random.choice(names), 0)
        for name in dying:
            yield _publish(random, at, random.randint(1, shape.publishers), name)
            kind = random.choices(("", "consume", "get"), (5, 1, 2))[0]
            if kind:
                key = random.choice([name, *shape.refusing_names])
                yield Ask(round(at, 3), random.randint(1, shape.takers), 0, kind, key, 0)
        for name in shape.guest_names:
            yield from _draw_life(random, at, shape, name)
        if shape.buries and random.random() < 0.2:
            yield Ask(round(at, 3), 1, 0, "graves", TARGET, 0)
        at += random.expovariate(1 / gap_s)


def _draw_stream_asks(random: Random, shape: BrokerShape) -> Iterator[Ask]:
    """Of publishers, those who use transactions too, of readers, and of operators who set policies."""
    publishers, gap_s = shape.publishers + shape.committers, random.choice((0.2, 0.4))
    guests = [name for name in shape.guest_names if name in ALL_STREAM_PROFILES]
    at = 0.3
    while at < shape.seconds - 4 and shape.readers:
        for name in shape.stream_names:
            publish = _publish(random, at, random.randint(1, publishers), name)
            yield replace(publish, kind=random.choices(("publish", "burst"), (15, 1))[0])
            if random.random() < 0.03:
                yield Ask(round(at, 3), 1, 0, "stream policy", name, 0)
        reader, name = random.randint(1, shape.readers), random.choice([*shape.stream_names, *guests])
        kind = random.choices(("read", "unread", ""), (4, 1, 6))[0]
        if kind:
            yield Ask(round(at, 3), reader, 0, kind, name, 0)
        for name in guests:
            yield from _draw_stream_life(random, at, shape, name)
        at += random.expovariate(1 / gap_s)


def _draw_client_asks(random: Random, shape: BrokerShape) -> Iterator[Ask]:
    """Of clients of the stream protocol."""
    gap_s = random.choice((0.2, 0.4))
    at = 0.3
    while at < shape.seconds - 4 and shape.writers:
        name = random.choice(shape.stream_names)
        yield Ask(round(at, 3), random.randint(1, shape.writers), 0, "write", name, 0)
        kind = random.choices(("read-chunks", "unread-chunks", ""), (4, 1, 5))[0]
        if kind:
            yield Ask(round(at, 3), random.randint(1, shape.chunk_readers), 0, kind, name, 0)
        at += random.expovariate(1 / gap_s)


def _draw_conversions(random: Random, shape: BrokerShape, faults: tuple[Fault, ...]) -> Iterator[Ask]:
    """Asked for again and again, as by an operator who sees that it has ended, most often right before a fault: a conversion
    takes a moment. Taken back now and then."""
    gap_s = random.choice((3.0, 6.0, 12.0))
    for name in shape.converted_names:
        begin = 1.0 + random.expovariate(1 / gap_s)
        while begin < shape.seconds - 4:
            yield Ask(round(begin, 3), 1, 0, "convert", name, 0)
            if random.random() < 0.2:
                yield Ask(round(begin + random.random() * 0.2, 3), 1, 0, "convert-no-more", name, 0)
            at = begin + random.expovariate(1 / gap_s)
            later = [fault.at for fault in faults if fault.at > at]
            begin = max(at, min(later) - random.random() * BEFORE_FAULT_S) if later and random.random() < 0.8 else at


def _draw_around(random: Random, shape: BrokerShape, asks: Sequence[Ask]) -> Iterator[Fault]:
    """What meets conversions at their change, or leaves nodes that have not heard of it."""
    recipes = [recipe for recipe in AROUND_CONVERSIONS if _can_happen(recipe, shape)]
    weights = [recipe.weight for recipe in recipes]
    for ask in asks:
        if ask.at > shape.seconds - shape.healed_s - FAULTS_BEFORE_HEALING_S or random.random() < 0.5:
            continue
        for recipe in random.choices(recipes, weights, k=random.choice((1, 1, 2))):
            at = ask.at + random.uniform(-BEFORE_FAULT_S, BEFORE_FAULT_S)
            node, other = random.randint(1, shape.nodes), random.randint(1, shape.nodes)
            span, value = random.uniform(*recipe.span), random.uniform(*recipe.value)
            yield Fault(round(at, 3), recipe.kind, node, other, round(span, 3), round(value, 3))


def _draw_stream_life(random: Random, at: float, shape: BrokerShape, name: str) -> Iterator[Ask]:
    for ask in _draw_life(random, at, shape, name):
        match ask.kind:
            case "consume" | "get":
                yield replace(ask, client=random.randint(1, shape.readers), kind="read")
            case "leave":
                yield replace(ask, client=random.randint(1, shape.readers), kind="unread")
            case _:
                yield ask


def _draw_life(random: Random, at: float, shape: BrokerShape, name: str) -> Iterator[Ask]:
    """Something of a queue that comes and goes, until all is healed."""
    kind = random.choices(("declare", "delete", "publish", "burst", "consume", "get", "leave"), (6, 3, 14, 2, 3, 3, 1))[
        0
    ]
    if kind in ("publish", "burst"):
        yield replace(_publish(random, at, random.randint(1, shape.publishers), name), kind=kind)
    elif kind not in ("declare", "delete") or at < shape.seconds - shape.healed_s - FAULTS_BEFORE_HEALING_S:
        yield Ask(round(at, 3), random.randint(1, shape.takers), 0, kind, name, 0)


def _publish(random: Random, at: float, publisher: int, key: str) -> Ask:
    return Ask(round(at, 3), publisher, 0, "publish", key, random.choice((20, 40, 200)))
