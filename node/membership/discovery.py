"""The first boot: blank nodes that know of each other found one cluster, never two. A core: no clock, no sockets, no chance.

Every blank node asks all nodes that it knows of, again and again, and answers their questions. What it knows of is what it was
configured with, who asks it, and what the nodes that answer know of. One that hears of a member of a cluster joins that one.
A cluster is founded in a *round*, which has the new cluster's id and is of one node, the founder:

1. A node may begin a round when it is blank, bound to nothing, and by its name the lowest of all that it knows of and that may
   found (no RAM nodes, none that was told whom to join); when everybody it knows of answers, is blank and bound to nothing;
   and, where a name service says who the nodes are, when there are `nodes_expected` of them, the same for a while.
2. It asks everybody it knows of for a promise: to belong to this round's cluster and no other. Who knows of a node that the
   founder does not, is bound already, founds itself, is lower, or has seen a member of a cluster, refuses.
3. With all promises it founds. Without them, or when it learns better, it gives the round up; its id is never used again.

A promise is on disk before it is given, and the founding before anybody is told. Who gave one, and only who gave one, may take
it back, in one case: the founder itself - its data directory, that is, whatever its address is now - has answered a
*later* question that it is not in that round, and is no member of that cluster. Who hears of a member of the cluster that it
promised itself to joins it. Who joins a cluster promises itself to that before it asks to be taken in, and does not take
that back.

Why there are no two clusters. Say two rounds ended with a founding. Each founder had the promises of all it knew of, and its
own. Where the two sets have a node in common, that one promised itself twice, so it took the first promise back: after it was
given, the first founder said that it is not in the round any more. But it founded in it, and a round that was given up is
never taken up again: a contradiction. Two sets have a node in common

- with configured peers: when the lists of all nodes that may found have a node in common, such as when they are one list;
- with a name service: when `nodes_expected` is more than half of the nodes that there will be. Two answers of so many names,
  however much the answer grows, have a name in common;
- though a part of the nodes is not reached, started late, or killed: they are in the sets, and nothing is founded without them.

What this rests on: a data directory is not put back to an earlier state, and one that has made a promise is not deleted in the
middle of the first boot. Against it stands only patience: while the founder of a round cannot be reached, those that it has
promises of wait. `waiting_for` says so, and what an operator can do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from node.identity import Bound

ROUND_S_MAX = 5.0  # then a round is given up
PAUSE_S = 1.0  # after a round that was given up, before the next
SETTLED_S = 3.0  # for how long a name service must have said the same

Address = str
ClusterId = str


@dataclass(slots=True, frozen=True)
class Question:
    """What one node asks another: who are you, and, in a round, do you promise yourself to it?"""

    instance: str
    name: str
    address: Address  # where the asking node is reached
    knows: frozenset[Address]  # in a round: everybody that is asked for a promise
    founding: ClusterId = ""  # the round for which a promise is asked


@dataclass(slots=True, frozen=True)
class GreetingReply:
    """What a node says of itself."""

    instance: str
    name: str
    cluster_id: ClusterId = ""  # it is a member of this cluster
    may_found: bool = False
    founding: ClusterId = ""  # its round, if it is in one
    bound: Bound | None = None
    knows: frozenset[Address] = frozenset()
    promised: bool = False  # to the round of the question
    refusal: str = ""  # why not


@dataclass(slots=True, frozen=True)
class Ask:
    """Put this question to the node at this address; `number` is above that of everything that happened here before."""

    address: Address
    question: Question
    number: int


@dataclass(slots=True, frozen=True)
class Found:
    """Begin this cluster. Nothing else is decided afterwards."""

    cluster_id: ClusterId


@dataclass(slots=True, frozen=True)
class Join:
    """Ask one of these members of a cluster to be taken in. It may be decided again, with others."""

    cluster_id: ClusterId
    addresses: tuple[Address, ...]


@dataclass(slots=True)
class _Round:
    cluster_id: ClusterId
    addresses: frozenset[Address]
    promised: dict[Address, str]  # by which instance
    until: float


class Discovery:
    """One blank node. `bound` is to be on disk before an answer leaves, or a decision is followed."""

    def __init__(
        self,
        instance: str,
        name: str,
        address: Address,
        *,
        peers: Iterable[Address],
        may_found: bool,
        bound: Bound | None,
        new_cluster_id: Callable[[], ClusterId],
        nodes_expected: int = 0,
        settled_s: float = 0.0,
    ) -> None:
        self.bound = bound
        self.waiting_for = ""  # for the log: what has to happen before this node can go on
        self._instance = instance
        self._name = name
        self._address = address
        self._peers = frozenset(peers)
        self._may_found = may_found
        self._new_cluster_id = new_cluster_id
        self._nodes_expected = nodes_expected
        self._settled_s = settled_s
        self._settled_at: float | None = None  # since when the name service has said the same, and that much
        self._askers: set[Address] = set()  # who asked and, as far as is known, can be asked
        self._heard: dict[Address, GreetingReply | None] = {}  # the last answer of each; None: there was none
        self._round: _Round | None = None
        self._next_round_at = 0.0
        self._decided: Found | None = None
        self._number = 0
        self._bound_at = 0  # number of the moment when `bound` was promised

    # what happens

    def looked_up(self, peers: Iterable[Address], now: float) -> None:
        """The name service says that these are the nodes."""
        found = frozenset(peers)
        if found != self._peers or self._settled_at is None:
            self._peers = found
            self._settled_at = now

    def questions(self) -> list[Ask]:
        """To be asked now, and again after a while."""
        current = self._round
        knows, founding = self._knows(), ""
        if current is not None:
            knows, founding = current.addresses | self._mine(), current.cluster_id
        question = Question(self._instance, self._name, self._address, knows, founding)
        asks = []
        for address in sorted(self._closure() - {self._address}):
            self._number += 1
            asks.append(Ask(address, question, self._number))
        return asks

    def answered(self, ask: Ask, answer: GreetingReply | None) -> None:
        """The answer to a question; None: the node did not answer."""
        self._heard[ask.address] = answer
        if answer is None:
            self._askers.discard(ask.address)
            return
        bound, current = self.bound, self._round
        if (
            bound is not None
            and not bound.exists
            and answer.instance == bound.instance
            and ask.number > self._bound_at
            and bound.cluster_id not in (answer.cluster_id, answer.founding)
        ):
            self.bound = None
        if answer.promised and current is not None and ask.question.founding == current.cluster_id:
            current.promised[ask.address] = answer.instance

    def asked(self, question: Question) -> GreetingReply:
        """What this node answers. Have `bound` on disk before it leaves."""
        refusal = ""
        self._askers.add(question.address)
        if question.founding:
            refusal = self._objection(question)
            if not refusal and self.bound is None:
                self._number += 1
                self._bound_at = self._number
                self.bound = Bound(question.founding, question.address, question.instance, exists=False)
        return GreetingReply(
            self._instance,
            self._name,
            may_found=self._may_found,
            founding=self._round.cluster_id if self._round is not None else "",
            bound=self.bound,
            knows=self._knows(),
            promised=bool(question.founding) and not refusal,
            refusal=refusal,
        )

    def decide(self, now: float) -> Found | Join | None:
        """What is to be done. Have `bound` on disk before a decision is followed."""
        if self._decided is not None:
            return self._decided
        self.waiting_for = ""
        join = self._join()
        if join is not None or self.waiting_for:
            self._give_up(now)
            return join
        why = self._why_not_found(now)
        if why:
            self.waiting_for = why
            self._give_up(now)
        elif self._round is None:
            if now >= self._next_round_at:
                others = self._closure() - self._mine()
                self._round = _Round(self._new_cluster_id(), others, {}, now + ROUND_S_MAX)
        elif self._round.addresses != self._closure() - self._mine() or now >= self._round.until:
            self._give_up(now)
        if self._round is not None and self._all_promised(self._round):
            self._decided = Found(self._round.cluster_id)
        return self._decided

    # whom it knows of

    def _knows(self) -> frozenset[Address]:
        return self._peers | {self._address}

    def _closure(self) -> frozenset[Address]:
        """Everybody: those that it knows of itself, and those that they know of, as far as they answer."""
        found: set[Address] = set()
        waiting = set(self._knows() | self._askers)
        while waiting:
            address = waiting.pop()
            found.add(address)
            answer = self._heard.get(address)
            if answer is not None:
                waiting |= answer.knows - found
                if answer.bound is not None and answer.bound.address not in found:
                    waiting.add(answer.bound.address)
        if self.bound is not None:
            found.add(self.bound.address)
        return frozenset(found)

    def _mine(self) -> frozenset[Address]:
        """Addresses under which this node reached itself."""
        mine = {address for address, answer in self._heard.items() if answer and answer.instance == self._instance}
        return frozenset(mine | {self._address})

    # joining

    def _join(self) -> Join | None:
        members: dict[ClusterId, list[tuple[Address, GreetingReply]]] = {}
        for address, answer in sorted(self._heard.items()):
            if answer is not None and answer.cluster_id:
                members.setdefault(answer.cluster_id, []).append((address, answer))
        if self.bound is not None:
            return self._join_bound(self.bound, members.get(self.bound.cluster_id, []))
        if len(members) > 1:
            shown = ", ".join(f"{found[0][0]} is of {cluster_id}" for cluster_id, found in sorted(members.items()))
            self.waiting_for = f"an operator: nodes of {len(members)} clusters answer: {shown}. Name nodes of one only"
            return None
        for cluster_id, found in members.items():
            address, answer = found[0]
            self.bound = Bound(cluster_id, address, answer.instance, exists=True)
            return Join(cluster_id, tuple(address for address, _ in found))
        return None

    def _join_bound(self, bound: Bound, members: list[tuple[Address, GreetingReply]]) -> Join | None:
        if members:
            self.bound = replace(bound, exists=True)
            return Join(bound.cluster_id, tuple(address for address, _ in members))
        what = "belong to the cluster of" if bound.exists else "follow"
        self.waiting_for = (
            f"the node at {bound.address}, because this node has promised to {what} it. If that node's data directory is lost "
            f"for good, remove this node's data directory too and start it again"
        )
        return None

    # founding

    def _objection(self, question: Question) -> str:
        """Why this node does not promise itself to the asking node's round; empty: it does."""
        if self._decided is not None or self._round is not None or question.instance == self._instance:
            return f"node '{self._name}' is about to found a cluster itself"
        if self.bound is not None and self.bound.cluster_id != question.founding:
            return f"node '{self._name}' has promised to follow the node at {self.bound.address}"
        unknown = self._knows() - question.knows
        if unknown:
            return f"node '{self._name}' also knows of {', '.join(sorted(unknown))}"
        if self._may_found and (self._name, self._instance) < (question.name, question.instance):
            return f"node '{self._name}' comes before '{question.name}'"
        if len(question.knows) < self._nodes_expected:
            return f"node '{self._name}' expects {self._nodes_expected} nodes, not {len(question.knows)}"
        members = [address for address, answer in self._heard.items() if answer is not None and answer.cluster_id]
        return f"node '{self._name}' sees a cluster at {members[0]}" if members else ""

    def _why_not_found(self, now: float) -> str:
        if not self._may_found:
            return f"a node of the cluster at {', '.join(sorted(self._peers))}"
        others = {address: self._heard.get(address) for address in sorted(self._closure() - self._mine())}
        missing = [address for address, answer in others.items() if answer is None]
        if missing:
            return f"{', '.join(missing)} to answer: a cluster is founded when all nodes are there"
        answers = {address: answer for address, answer in others.items() if answer is not None}
        for address, answer in answers.items():
            if answer.name == self._name and answer.instance != self._instance:
                return (
                    f"an operator: the node at {address} is named '{self._name}' as this one is. Give one another name"
                )
        lower = [answer for answer in answers.values() if answer.may_found and answer.name < self._name]
        if lower:
            return f"node '{min(answer.name for answer in lower)}' to found the cluster"
        for address, answer in answers.items():
            round_id = self._round.cluster_id if self._round is not None else ""
            if answer.founding or (answer.bound is not None and answer.bound.cluster_id != round_id):
                return f"the node at {address}, which is not free yet: {answer.refusal or 'it has promised itself'}"
        instances = {answer.instance for answer in answers.values()} | {self._instance}
        if len(instances) < self._nodes_expected:
            return f"{self._nodes_expected} nodes, cluster.nodes_expected, of which {len(instances)} are there"
        if self._settled_s and (self._settled_at is None or now < self._settled_at + self._settled_s):
            return "the name service to say the same for a while"
        return ""

    def _all_promised(self, current: _Round) -> bool:
        promised = {*current.promised.values(), self._instance}
        return current.promised.keys() >= current.addresses and len(promised) >= self._nodes_expected

    def _give_up(self, now: float) -> None:
        if self._round is not None:
            self._round = None
            self._next_round_at = now + PAUSE_S
