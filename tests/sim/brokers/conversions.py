"""Classic queues that become quorum queues in a campaign, whatever else happens to their nodes.

Each has clients of its own (numbered_clients.py), and is asked to be converted again and again until it is; now and then an
operator takes that back. What must hold is looked at three times:

    at the change   when the catalog's log has the command, the quorum queue has what the classic one had: all of it that no
                    client has acknowledged, and nothing that it was durably done with
    behind it       what the classic queue has never handed out comes out in order, and behind what it has handed out
    in the end      what was confirmed has been acknowledged by a client, and what was given twice said so

Where its home is gone for good before the change, the queue is gone with it, and nothing is expected of it.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from broker.catalog.carrying_out import CommandOutcome
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.mirrored_queues import as_converted
from broker.errors import BrokerError
from broker.names import becoming_queue, final_name, is_becoming
from broker.pending import ignore
from broker.records import QueueRecord
from node.conversion.conversion import Phase
from quorum.fifo.commands import ConsumerKey
from raft.core.messages import node_of
from tests.sim.brokers import invariants
from tests.sim.brokers.classics import ClassicBook
from tests.sim.brokers.invariants import About
from tests.sim.brokers.ledger import Ledger
from tests.sim.brokers.numbered_clients import NumberedTaker, NumberingPublisher

if TYPE_CHECKING:
    from broker.catalog.parts.catalog_conversions import Converted
    from tests.sim.brokers.channel import Given
    from tests.sim.brokers.process import BrokerProcess
    from tests.sim.brokers.site import BrokerSite
    from tests.sim.brokers.world import BrokerWorld
    from tests.sim.plan import Ask

HOLDS_S = (0.01, 0.2, 1.0)
PAUSES_S = (0.1, 0.3)
PUBLISHERS, TAKERS = 2, 2
TAKE_BACK_S = 0.5
BEHIND_THE_FENCE = (Phase.FENCED, Phase.SEALED, Phase.SWAPPING)


class Everybody(dict[ConsumerKey, bool]):
    """All consumers."""

    def __contains__(self, key: object) -> bool:
        return True


def told_by_its_clients(ledger: Ledger) -> Ledger:
    """Of what clients acknowledge it is not told; and until the change nobody is given anything."""
    ledger.asked.unwatched = Everybody()
    ledger.holds_copies = True
    return ledger


class ConvertedQueue:
    """One of them. Fulfils NumberedQueue of numbered_clients.py."""

    def __init__(self, world: BrokerWorld, name: str, home: int) -> None:
        self.sim = world
        self.queue = name
        self.home = home
        self.at_rest = False
        self.is_converted = False
        self.about = About(f"queue {name}", world.watch.checked)
        self.book = ClassicBook(self.about, home, ignore, lambda _: True, is_target=False, drops=False)
        self._random = Random(f"{world.plan.seed} {name}")
        self.pause_s = self._random.choice(PAUSES_S)
        self.hold_s = self._random.choice(HOLDS_S)
        self._confirmed: dict[bytes, bool] = {}
        self._given: dict[bytes, bool] = {}
        self._acknowledged: dict[bytes, bool] = {}

    def begin(self) -> None:
        """The queue is there."""
        for number in range(1, PUBLISHERS + 1):
            NumberingPublisher(self, number)
        for number in range(PUBLISHERS + 1, PUBLISHERS + TAKERS + 1):
            NumberedTaker(self, number)

    def come_to_rest(self) -> None:
        """Nothing more is published, and what is there is acknowledged at once."""
        self.at_rest = True
        self.hold_s = 0.0

    # what its clients ask and tell

    def node_for(self, number: int) -> BrokerSite | None:
        return self.sim.a_node(self._random)

    def was_confirmed(self, body: bytes) -> None:
        self._confirmed[body] = True

    def seen(self, number: int, given: Given) -> None:
        is_again = given.body in self._given
        invariants.what_comes_again_says_so(self.about, f"client {number}", given.body, is_again, given.redelivered)
        self._given[given.body] = True

    def acknowledging(self, body: bytes) -> None:
        self._acknowledged[body] = True

    # what becomes of it

    def has_become(self, ledger: Ledger) -> None:
        self.is_converted = True
        present = {body for body, known in ledger.bodies.items() if not all(one.fate for one in known)}
        missing = [body for body in self.book.alive() if body not in present and body not in self._acknowledged]
        again = [body for body in present if body in self.book.done_with]
        invariants.converted_queue_has_what_it_had(self.about, missing, again)
        ledger.takes_over(self.book.handed_out.keys() | self.book.may_come_late.keys(), self.book.lanes)

    @property
    def is_gone(self) -> bool:
        return self.home in self.sim.away and not self.is_converted

    def missing(self) -> list[bytes]:
        return [] if self.is_gone else [body for body in self._confirmed if body not in self._acknowledged]


class ConvertedQueues:
    """All of a world. Part of world.py."""

    def __init__(self, world: BrokerWorld, seed: int) -> None:
        self._world = world
        self._random = Random(f"{seed} conversions")
        self.queues: dict[str, ConvertedQueue] = {}
        self._ledgers: dict[int, Ledger] = {}  # by number of the quorum queue
        self._becoming: list[QueueRecord] = []  # all that were declared

    # beginning

    def declarations(self) -> list[commands.Command]:
        """Their homes are nodes with a vote, on whose disks nothing is lost that was promised."""
        shape = self._world.shape
        for name in shape.converted_names:
            home = self._random.randint(shape.frail + 1, shape.voters)
            self.queues[name] = ConvertedQueue(self._world, name, home)
        return [commands.DeclareQueue("/", name, "classic", home=f"n{one.home}") for name, one in self.queues.items()]

    def begin(self) -> None:
        for one in self.queues.values():
            one.begin()

    def book_of(self, record: QueueRecord) -> ClassicBook | None:
        found = self.queues.get(record.name)
        return found.book if found is not None else None

    def is_one(self, record: QueueRecord) -> bool:
        return final_name(record.name) in self.queues

    def watch(self, record: QueueRecord, ledger: Ledger) -> None:
        self._ledgers[record.id] = told_by_its_clients(ledger)

    # what happens to them

    def ask(self, ask: Ask) -> None:
        """Of an operator, by way of some node."""
        site = self._world.a_node(self._random)
        if site is not None and site.process is not None:
            step = self._convert if ask.kind == "convert" else self._take_back
            site.run(site.life, step, (site.process, ask.key))

    def _convert(self, process: BrokerProcess, name: str) -> None:
        catalog = process.broker.catalog
        record = catalog.queue("/", name)
        if record is None or record.kind != "classic" or catalog.queue("/", becoming_queue(name)) is not None:
            return
        try:
            wish = as_converted(catalog, record)
        except BrokerError:
            return  # its home is gone, say
        process.broker.submit(wish, 0).then(lambda _: self._world.watch.count("conversion begun"), ignore)

    def _take_back(self, process: BrokerProcess, name: str) -> None:
        becoming = process.broker.catalog.queue("/", becoming_queue(name))
        if becoming is not None:
            delete = commands.DeleteQueue("/", becoming.name, becoming.id)
            process.broker.submit(delete, 0).then(lambda _: self._world.watch.count("conversion taken back"), ignore)

    def declared(self, outcome: CommandOutcome) -> None:
        """The catalog's log says so."""
        is_declared = isinstance(outcome.command, commands.DeclareQueue) and outcome.result is not None
        if is_declared and is_becoming(outcome.result.name):
            self._becoming.append(outcome.result)
            self._look_at_founders(outcome.result)
        if not isinstance(outcome.command, commands.ConvertQueue) or outcome.result is None:
            return
        converted: Converted = outcome.result
        found = self.queues.get(converted.before.name)
        if found is not None:
            self._world.watch.count("queue converted")
            found.has_become(self._ledgers[converted.now.id])

    def healed(self) -> None:
        """It is known who stays away. A group of which no founder has begun by now had no say in that."""
        for becoming in self._becoming:
            self._look_at_founders(becoming)

    def _look_at_founders(self, becoming: QueueRecord) -> None:
        """Who stays away in the end may have been chosen as a founder before that was known: the home gives up after a minute,
        and an operator before that."""
        if self._world.is_healed:
            present = [one for one in becoming.members if node_of(one) not in self._world.away]
            if len(present) * 2 <= len(becoming.members):
                self._world.loop.call_later(TAKE_BACK_S, self._take_back_at_last, becoming)

    def _take_back_at_last(self, becoming: QueueRecord) -> None:
        site = self._world.a_node(self._random)
        if site is not None and site.process is not None:
            site.run(site.life, self._take_back, (site.process, final_name(becoming.name)))
            left = site.process.broker.catalog.queue_of_id(becoming.id)
            if left is None or not is_becoming(left.name):
                return
        self._world.loop.call_later(TAKE_BACK_S, self._take_back_at_last, becoming)

    def process_ended(self, process: BrokerProcess) -> None:
        for conversion in process.conversions:
            self._world.watch.count("conversion cut by the end of its process")
            if conversion.phase in BEHIND_THE_FENCE:
                self._world.watch.count("conversion cut behind its fence")

    # the end

    def come_to_rest(self) -> None:
        for one in self.queues.values():
            one.come_to_rest()

    def what_is_left(self) -> bool:
        return any(one.missing() for one in self.queues.values())

    def judge(self) -> None:
        for one in self.queues.values():
            if one.is_gone:
                self._world.watch.count("queue to be converted is gone with its home")
            invariants.converted_queue_loses_nothing(one.about, one.missing())
