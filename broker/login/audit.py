"""Audit: one line for each failed login, and for each change that only operators make.

Those are changes of users, permissions, vhosts, policies, limits and nodes (commands of the catalog), of the members and
leaders of quorum queues, of the log level, and connections that somebody closed for their clients.

A line says who, from where, and what, and whether it was refused; never a password or its hash. An import of definitions is a
change for each thing in it. Changes are attributed to the client whose request is being served (`acting_for`), and to the node
itself when there is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import Any, TypeVar

from broker.activity.ring import NumberedRing
from broker.actors import ActorKind, LogActor, submits_from_here_on
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.commands.catalog_commands import Command
from broker.errors import BrokerError, bounded
from broker.login.client_address import ClientAddress
from broker.pending import Pending

T = TypeVar("T")
U = TypeVar("U")


@dataclass(slots=True, frozen=True)
class Actor:
    """Whose request is being served."""

    user: str
    client: ClientAddress

    def __str__(self) -> str:
        return f"user '{bounded(self.user)}' from {self.client.address} over {self.client.protocol}"


@dataclass(slots=True, frozen=True)
class AuditLine:
    """A change or a failed login, as the log has it. No user: the node itself, or a name that nobody has."""

    at: int
    user: str
    address: str
    protocol: str
    kind: str
    what: str
    outcome: str
    why: str


LINES_KEPT = 2_000
DONE, REFUSED, UNKNOWN = "done", "refused", "unknown"  # outcomes; unknown: its client stopped waiting for it

_actor: ContextVar[Actor | None] = ContextVar("actor", default=None)


def acting_for(actor: Actor) -> None:
    """From here on, in this task, changes are this client's."""
    _actor.set(actor)
    client = actor.client
    submits_from_here_on(
        LogActor(ActorKind.CONNECTION, user=actor.user, address=client.address, product=client.protocol)
    )


def as_actor_of_now(ask: Callable[[T], U]) -> Callable[[T], U]:
    """The same function, for an answer that comes later: its changes are those of the client that is being served now."""
    context = copy_context()
    return lambda value: context.copy().run(ask, value)


class Audit:
    """Writes the lines and counts. What clients chose in a line is escaped by the logger."""

    def __init__(self, note: Callable[[str], None], warn: Callable[[str], None]) -> None:
        """`note` takes changes, `warn` failed logins."""
        # The last, for those who look on.
        self.lines: NumberedRing[AuditLine] = NumberedRing(LINES_KEPT, lambda: self.wall_ms())
        self._note = note
        self._warn = warn
        self.wall_ms: Callable[[], int] = lambda: 0  # the broker gives it its clock
        self.logins: Counter[tuple[str, bool]] = Counter()  # by protocol, and whether they succeeded
        self.logins_forgotten: Counter[tuple[str, bool]] = (
            Counter()
        )  # of these, those from before operators last reset them
        self.changes: Counter[tuple[str, str]] = Counter()  # by kind, and outcome

    def logged_in(self, client: ClientAddress) -> None:
        self.logins[client.protocol, True] += 1

    def login_failed(self, user: str | None, client: ClientAddress, why: str) -> None:
        """`user` is None for a name that nobody has: people type their passwords there."""
        self.logins[client.protocol, False] += 1
        self._keep(Actor(user or "", client), "Login", "log in", REFUSED, why)
        who = f"user '{bounded(user)}'" if user is not None else "an unknown user"
        self._warn(f"login failed: {who} from {client.address} over {client.protocol}: {why}")

    def watched(self, command: Command, pending: Pending[Any]) -> Pending[Any]:
        """The same answer; it is written down when it is there."""
        what = description(command)
        if what is None:
            return pending
        kind, who = type(command).__name__, _actor.get()
        seen: Pending[Any] = Pending()

        def done(value: Any) -> None:
            self._write(who, kind, what, DONE)
            seen.resolve(value)

        def refused(error: BrokerError) -> None:
            self._write(who, kind, what, REFUSED, error.text)
            seen.fail(error)

        pending.then(done, refused)
        return seen

    def changed(self, kind: str, what: str, refused: BrokerError | None = None) -> None:
        """A change that is no command, and has its outcome."""
        if refused is None:
            self._write(_actor.get(), kind, what, DONE)
        else:
            self._write(_actor.get(), kind, what, REFUSED, refused.text)

    @contextmanager
    def change(self, kind: str, what: str) -> Iterator[None]:
        """A change that is no command: how the block ends is its outcome."""
        try:
            yield
        except BrokerError as error:
            self.changed(kind, what, error)
            raise
        except BaseException:
            self._write(_actor.get(), kind, what, UNKNOWN, "its client did not wait until it was done")
            raise
        self.changed(kind, what)

    def _write(self, who: Actor | None, kind: str, what: str, outcome: str, why: str = "") -> None:
        self.changes[kind, outcome] += 1
        self._keep(who, kind, what, outcome, why)
        end = f": {outcome}: {bounded(why)}" if why else ""
        self._note(f"{who or 'this node'}: {bounded(what)}{end}")

    def _keep(self, who: Actor | None, kind: str, what: str, outcome: str, why: str) -> None:
        user, address, protocol = ("", "", "") if who is None else (who.user, who.client.address, who.client.protocol)
        self.lines.add(
            AuditLine(self.wall_ms(), bounded(user), address, protocol, kind, bounded(what), outcome, bounded(why))
        )


def _put_user(command: commands.PutUser) -> str:
    record = command.record
    password = "with a password" if record.password_hash is not None else "without a password"
    return f"put user '{record.name}' {password}, tags: {', '.join(record.tags) or 'none'}"


def _put_permission(command: commands.PutPermission) -> str:
    one = command.record
    rights = f"configure '{one.configure}', write '{one.write}', read '{one.read}'"
    return f"put permission of user '{one.user}' in vhost '{one.vhost}': {rights}"


def _put_topic_permission(command: commands.PutTopicPermission) -> str:
    one = command.record
    rights = f"write '{one.write}', read '{one.read}'"
    return f"put topic permission of user '{one.user}' in vhost '{one.vhost}', exchange '{one.exchange}': {rights}"


def _put_policy(command: commands.PutPolicy) -> str:
    one = command.record
    kind = "operator policy" if one.operator else "policy"
    return f"put {kind} '{one.name}' in vhost '{one.vhost}' for {one.apply_to} like '{one.pattern}': {one.definition}"


def _put_node(command: commands.AddNode | commands.JoinNode | commands.PutNode) -> str:
    one = command.record
    verb = "change" if isinstance(command, commands.PutNode) else "add"
    draining = ", draining" if one.draining else ""
    return f"{verb} node '{one.name}' at {one.address}, a {one.kind} node{draining}"


# What is written down; queues, exchanges and bindings are for clients to declare, and not.
_DESCRIBE: dict[type[Any], Callable[[Any], str]] = {
    commands.PutVhost: lambda command: f"put vhost '{command.record.name}'",
    commands.DeleteVhost: lambda command: f"delete vhost '{command.name}'",
    commands.PutUser: _put_user,
    commands.DeleteUser: lambda command: f"delete user '{command.name}'",
    commands.PutPermission: _put_permission,
    commands.DeletePermission: lambda one: f"delete permission of user '{one.user}' in vhost '{one.vhost}'",
    commands.PutTopicPermission: _put_topic_permission,
    commands.DeleteTopicPermission: lambda one: (
        f"delete topic permission of user '{one.user}' in vhost '{one.vhost}', exchange: {one.exchange or 'all'}"
    ),
    commands.PutPolicy: _put_policy,
    commands.DeletePolicy: lambda one: (
        f"delete {'operator policy' if one.operator else 'policy'} '{one.name}' in vhost '{one.vhost}'"
    ),
    commands.SetParameter: lambda one: f"set parameter '{one.record.name}' of {one.record.component}",
    commands.ClearParameter: lambda one: f"clear parameter '{one.name}' of {one.component}",
    commands.SetVhostLimits: lambda one: f"set limits of vhost '{one.vhost}': {one.limits}",
    commands.SetUserLimits: lambda one: f"set limits of user '{one.user}': {one.limits}",
    commands.AddNode: _put_node,
    commands.JoinNode: _put_node,
    commands.PutNode: _put_node,
    commands.RemoveNode: lambda one: f"remove node '{one.name}'",
}


def description(command: Command) -> str | None:
    """What is written down of it, without secrets; None: nothing is."""
    describe = _DESCRIBE.get(type(command))
    return None if describe is None else describe(command)
