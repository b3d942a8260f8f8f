"""Operators: whoever declares, deletes, binds and sets policies, on any node, and whether the answers make sense together.

The order of the metadata group's log is the witness: an answer must be what the log gives at its entry, and who asks after
somebody was answered must be answered by a later entry.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from broker.catalog.commands import catalog_commands as commands
from broker.catalog.commands.catalog_commands import Command
from broker.errors import BrokerError
from broker.pending import ignore
from broker.records import BindingRecord, ExchangeRecord, PolicyRecord
from stream.queue import StreamQueue
from tests.sim.brokers import invariants
from tests.sim.brokers.client_connection import WAY_S
from tests.sim.brokers.plan import ALL_CLASSIC_PROFILES, ALL_STREAM_PROFILES, GRAVES, LIVES, QUORUM, STREAM, TARGET
from tests.sim.plan import Ask

if TYPE_CHECKING:
    from tests.sim.brokers.process import BrokerProcess
    from tests.sim.brokers.site import BrokerSite
    from tests.sim.brokers.world import BrokerWorld

EXCHANGES = ("x1", "x2")
KINDS = ("direct", "fanout", "topic")
# The clocks of a run may jump by hours altogether, and nothing is to expire by this.
LONG_TTL_MS = 30 * 24 * 3_600_000
# Nor is anything to be dropped by this: where faults are dense, hundreds of messages wait.
LONG_LENGTH = 1_000_000
DEFINITIONS: tuple[dict[str, Any], ...] = (
    {"delivery-limit": 5},
    {"delivery-limit": 9},
    {"max-length": LONG_LENGTH},
    {"message-ttl": LONG_TTL_MS},
    {"consumer-timeout": 60_000},
)
# Of these none drops what was confirmed: publishes are refused instead.
CLASSIC_DEFINITIONS: tuple[dict[str, Any], ...] = (
    {"max-length": 4, "overflow": "reject-publish"},
    {"max-length-bytes": 300, "overflow": "reject-publish"},
    {"max-length-bytes": 800, "overflow": "reject-publish"},
    {"max-length-bytes": 1500, "overflow": "reject-publish"},
    {"max-length": LONG_LENGTH},
    {"message-ttl": LONG_TTL_MS},
)
STREAM_DEFINITIONS: tuple[dict[str, Any], ...] = (
    {"max-length-bytes": 1500},
    {"max-length-bytes": 6000},
    {"max-age": "2s"},
    {"max-age": "1h"},
    {"max-length-bytes": 2000, "max-age": "10s"},
)


class Operator:
    """One at a time, whoever it is."""

    def __init__(self, world: BrokerWorld) -> None:
        self.world = world
        self.answered = 0
        self.unknown = 0
        self._random = Random(f"{world.plan.seed} operator")
        self._newest = 0  # entry of the metadata log that anybody was answered from
        self._made = 0

    def ask(self, ask: Ask, done: Callable[[], None] = lambda: None) -> None:
        self.submit(self._life(ask) if ask.kind in ("declare", "delete") else ask.kind, done)

    def _life(self, ask: Ask) -> Command:
        """A queue that comes and goes. A classic one lives where no disk loses what it had promised."""
        if ask.kind == "delete":
            return commands.DeleteQueue("/", ask.key)
        world, is_classic = self.world, ask.key in ALL_CLASSIC_PROFILES
        kind = {"x-queue-type": "classic"} if is_classic else STREAM if ask.key in ALL_STREAM_PROFILES else QUORUM
        fit = [site.name for site in world.present() if not world.is_frail(site.number)]
        world.members_change()
        return commands.DeclareQueue("/", ask.key, arguments={**kind, **LIVES[ask.key]}, home=self._random.choice(fit))

    def open_graves(self) -> tuple[Command, Command]:
        """What it takes that dead letters find the exchange which comes and goes."""
        exchange = ExchangeRecord("/", GRAVES, "direct")
        return commands.DeclareExchange(exchange), commands.Bind(BindingRecord("/", GRAVES, TARGET, "queue", TARGET))

    def submit(self, wish: Command | str, done: Callable[[], None] = lambda: None) -> None:
        """To some node: a command, or one of a kind."""
        site = self.world.a_node(self._random)
        if site is not None:
            command = self._command(wish) if isinstance(wish, str) else wish
            floor = self._newest
            self.world.loop.call_later(WAY_S, site.run, site.life, self._submit, (site, command, floor, done))

    def _command(self, kind: str) -> Command:
        random = self._random
        exchange = random.choice(EXCHANGES)
        self._made += 1
        match kind:
            case "exchange" if random.random() < 0.6:
                return commands.DeclareExchange(ExchangeRecord("/", exchange, random.choice(KINDS)))
            case "exchange":
                return commands.DeleteExchange("/", exchange)
            case "graves":
                makes = self.open_graves()
                return random.choices((*makes, commands.DeleteExchange("/", GRAVES)), (3, 3, 2))[0]
            case "bind":
                queue = random.choice(self.world.queue_names)
                record = BindingRecord("/", exchange, queue, "queue", f"k{random.randint(1, 3)}")
                return commands.Bind(record) if random.random() < 0.7 else commands.Unbind(record)
            case "stream policy":
                return self._stream_policy()
            case _:
                is_classic = bool(self.world.classics) and random.random() < 0.7
                name = random.choice(("one", "other")) + (" for classic queues" if is_classic else "")
                if random.random() < 0.3:
                    return commands.DeletePolicy("/", name)
                definition = dict(random.choice(CLASSIC_DEFINITIONS if is_classic else DEFINITIONS))
                pattern = "^classic-[^d]" if is_classic else "^plain"
                record_of = PolicyRecord("/", name, pattern, "queues", random.randint(0, 2), definition)
                return commands.PutPolicy(record_of)

    def _stream_policy(self) -> Command:
        random = self._random
        if random.random() < 0.3:
            return commands.DeletePolicy("/", "for streams")
        definition = dict(random.choice(STREAM_DEFINITIONS))
        return commands.PutPolicy(PolicyRecord("/", "for streams", "^stream", "streams", 0, definition))

    def _submit(self, site: BrokerSite, command: Command, floor: int, done: Callable[[], None]) -> None:
        process = site.process
        assert process is not None, f"node {site.number} is down"
        pending = process.broker.submit(command, site.clock.wall_ms())
        what = type(command).__name__

        def did(_: object) -> None:
            self._told(process, what, floor, "")
            done()

        pending.then(did, lambda error: self._told(process, what, floor, error.text))

    def _told(self, process: BrokerProcess, what: str, floor: int, error: str) -> None:
        origin = process.metadata.telling
        if origin is None:  # nobody knows what became of it, or nothing did
            self.unknown += 1
            self.world.watch.count("operator told nothing")
            return
        self.answered += 1
        index, outcome = self.world.catalog.outcomes[origin]
        about = self.world.about_catalog
        known = outcome.error.text if outcome.error is not None else ""
        invariants.catalog_answers_are_the_logs(about, what, error, known)
        invariants.catalog_is_linearizable(about, what, index, floor)
        self._newest = max(self._newest, index)

    # What faults ask for

    def change_members(
        self, process: BrokerProcess, queue: Any, node: int, *, grows: bool, done: Callable[[], None]
    ) -> None:
        administration = (process.kernel.streams if isinstance(queue, StreamQueue) else process.quorum).administration
        which = "stream member" if isinstance(queue, StreamQueue) else "member"
        change = administration.add_member if grows else administration.remove_member

        def did(_: object) -> None:
            self.world.watch.count(f"{which} {'added' if grows else 'removed'}")
            done()

        change(queue, node).then(did, lambda error: self.world.watch.count(f"members not changed: {told(error)}"))

    def remove_node(self, process: BrokerProcess, name: str) -> None:
        process.metadata.submit(commands.RemoveNode(name)).then(
            lambda _: self.world.watch.count("node forgotten"), ignore
        )


def told(error: BrokerError) -> str:
    return type(error).__name__
