"""Who may do what, as a table: one row a request, with what it asks of its user and how it ends.

    request     methods in the protocol's words, `;` between them. A word without `=` is a bit that is set; x-... and
                alternate-exchange go into the arguments, CC and BCC into the headers of a publish
    subject     the queue or exchange whose existence must not show: the row holds when it is there and when it is missing
    needs       permissions in the order in which they are asked for; `any` is one of the three. A `*` behind: asked for
                only when the subject is missing, for then the request makes it
    there       how it ends for a user who may, when the subject exists: ok, or the reply code
    missing     the same when it does not

A request that lacks a permission ends with 403 and the same text whether the subject exists or not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SPEC = """
queue.declare queue=q                                   | q       | configure q                          | ok  | ok
queue.declare queue=q exclusive                         | q       | configure q                          | 405 | ok
queue.declare queue=q passive                           | q       | any q                                | ok  | 404
queue.declare queue=q x-dead-letter-exchange=dlx        | q       | configure q, read q*, write dlx*     | 406 | ok
queue.declare queue=q x-dead-letter-exchange=           | q       | configure q, read q*, write amq.default* | 406 | ok
queue.declare queue=q x-dead-letter-exchange=amq.fanout | q       | configure q, read q*, write amq.fanout*  | 406 | ok
queue.declare queue=                                    | -       | configure amq.gen-*                  | ok  | -
queue.declare queue=amq.mine                            | -       |                                      | 403 | -
queue.declare queue=amq.mine passive                    | -       | any amq.mine                         | 404 | -
queue.declare queue=amq.rabbitmq.reply-to passive       | -       |                                      | ok  | -
queue.bind queue=q exchange=x routing_key=k             | q       | write q, read x                      | ok  | 404
queue.bind queue=q exchange=x routing_key=k             | x       | write q, read x                      | ok  | 404
queue.bind queue=q exchange=amq.topic routing_key=k.#   | q       | write q, read amq.topic              | ok  | 404
queue.bind queue=q exchange=amq.headers                 | q       | write q, read amq.headers            | ok  | 404
queue.bind queue=q exchange= routing_key=k              | q       |                                      | 403 | 403
queue.bind queue= exchange=x routing_key=k              | -       |                                      | 404 | -
queue.bind queue=q exchange=topic routing_key=in.k      | topic   | write q, read topic                  | ok  | 404
queue.bind queue=q exchange=topic routing_key=secret.k  | topic   | write q, read topic                  | 403 | 404
queue.bind queue=q exchange=topic routing_key=#         | topic   | write q, read topic                  | 403 | 404
queue.unbind queue=q exchange=x routing_key=k           | q       | write q, read x                      | ok  | ok
queue.unbind queue=q exchange=x routing_key=k           | x       | write q, read x                      | ok  | ok
queue.unbind queue=q exchange=x routing_key=none        | q       | write q, read x                      | ok  | ok
queue.unbind queue=q exchange= routing_key=q            | q       |                                      | 403 | 403
queue.purge queue=q                                     | q       | read q                               | ok  | 404
queue.delete queue=q                                    | q       | configure q                          | ok  | ok
queue.delete queue=q if_unused if_empty                 | q       | configure q                          | ok  | ok
queue.delete queue=                                     | -       |                                      | 404 | -
basic.get queue=q                                       | q       | read q                               | ok  | 404
basic.get queue=q no_ack                                | q       | read q                               | ok  | 404
basic.consume queue=q                                   | q       | read q                               | ok  | 404
basic.consume queue=q no_ack exclusive                  | q       | read q                               | ok  | 404
basic.consume queue=q x-priority=9                      | q       | read q                               | ok  | 404
basic.consume queue=amq.rabbitmq.reply-to no_ack        | -       |                                      | ok  | -
basic.consume queue=amq.rabbitmq.reply-to               | -       |                                      | 406 | -
basic.publish exchange=x routing_key=k                  | x       | write x                              | ok  | 404
basic.publish exchange=x routing_key=k mandatory        | x       | write x                              | ok  | 404
basic.publish exchange=x routing_key=k CC=a,b BCC=c     | x       | write x                              | ok  | 404
basic.publish exchange=internal routing_key=k           | internal | write internal                      | 403 | 404
basic.publish exchange= routing_key=q                   | q       | write amq.default                    | ok  | ok
basic.publish exchange= routing_key=q CC=q,r            | q       | write amq.default                    | ok  | ok
basic.publish exchange= routing_key=amq.rabbitmq.reply-to.x | -   | write amq.default                    | ok  | -
basic.publish exchange=amq.fanout routing_key=k         | -       | write amq.fanout                     | ok  | -
basic.publish exchange=amq.direct routing_key=k         | -       | write amq.direct                     | ok  | -
basic.publish exchange=amq.rabbitmq.trace routing_key=k | -       | write amq.rabbitmq.trace             | 403 | -
basic.publish exchange=topic routing_key=u.k            | topic   | write topic                          | ok  | 404
basic.publish exchange=topic routing_key=other.k        | topic   | write topic                          | 403 | 404
basic.publish exchange=topic routing_key=xu.k           | topic   | write topic                          | 403 | 404
basic.publish exchange=topic routing_key=u.k CC=u.l     | topic   | write topic                          | ok  | 404
basic.publish exchange=topic routing_key=u.k CC=other.k | topic   | write topic                          | 403 | 404
basic.publish exchange=topic routing_key=u.k BCC=u.l,other.k | topic | write topic                       | 403 | 404
tx.select ; basic.publish exchange=x routing_key=k ; tx.commit | x | write x                             | ok  | 404
confirm.select ; basic.publish exchange=x routing_key=k | x       | write x                              | ok  | 404
exchange.declare exchange=x type=direct                 | x       | configure x                          | ok  | ok
exchange.declare exchange=x type=fanout                 | x       | configure x                          | 406 | ok
exchange.declare exchange=x type=direct passive         | x       | any x                                | ok  | 404
exchange.declare exchange=x type=direct alternate-exchange=ae | x | configure x, read x*, write ae*      | 406 | ok
exchange.declare exchange=x type=direct alternate-exchange=amq.fanout | x | configure x, read x*, write amq.fanout* | 406 | ok
exchange.declare exchange=amq.direct type=direct durable | -      | configure amq.direct                 | ok  | -
exchange.declare exchange=amq.direct type=direct passive | -      | any amq.direct                       | ok  | -
exchange.declare exchange=amq.mine type=direct          | -       | configure amq.mine                   | 403 | -
exchange.declare exchange= type=direct                  | -       |                                      | 403 | -
exchange.declare exchange= type=direct passive          | -       |                                      | 403 | -
exchange.delete exchange=x                              | x       | configure x                          | ok  | ok
exchange.delete exchange=x if_unused                    | x       | configure x                          | ok  | ok
exchange.delete exchange=amq.direct                     | -       |                                      | 403 | -
exchange.delete exchange=                               | -       |                                      | 403 | -
exchange.bind destination=target source=x routing_key=k | x       | write target, read x                 | ok  | 404
exchange.bind destination=target source=x routing_key=k | target  | write target, read x                 | ok  | 404
exchange.bind destination=amq.fanout source=x           | x       | write amq.fanout, read x             | ok  | 404
exchange.bind destination=target source=topic routing_key=in.k | topic | write target, read topic        | ok  | 404
exchange.bind destination=target source=topic routing_key=k    | topic | write target, read topic        | 403 | 404
exchange.bind destination= source=x                     | -       |                                      | 403 | -
exchange.bind destination=target source=                | -       |                                      | 403 | -
exchange.unbind destination=target source=x routing_key=k | x     | write target, read x                 | ok  | ok
exchange.unbind destination=target source=x routing_key=k | target | write target, read x                | ok  | ok
exchange.unbind destination=target source=              | -       |                                      | 403 | -
basic.qos prefetch_count=1                              | -       |                                      | ok  | -
basic.cancel consumer_tag=nobody                        | -       |                                      | ok  | -
basic.ack delivery_tag=1                                | -       |                                      | 406 | -
basic.nack delivery_tag=1                               | -       |                                      | 406 | -
basic.reject delivery_tag=1                             | -       |                                      | 406 | -
basic.recover requeue                                   | -       |                                      | ok  | -
basic.recover-async requeue                             | -       |                                      | ok  | -
channel.flow active                                     | -       |                                      | ok  | -
access.request                                          | -       |                                      | ok  | -
confirm.select                                          | -       |                                      | ok  | -
tx.select ; tx.commit                                   | -       |                                      | ok  | -
tx.select ; tx.rollback                                 | -       |                                      | ok  | -
"""

ACCESSES = ("configure", "write", "read")
# What the world of the matrix holds. Everything else is a queue or exchange of the broker's own.
QUEUES = ("q",)
EXCHANGES = {"x": "direct", "target": "fanout", "dlx": "fanout", "ae": "fanout", "internal": "fanout", "topic": "topic"}
# The user's topic permissions on exchange `topic`.
TOPIC_WRITE, TOPIC_READ = r"^{username}\.", r"^in\."


@dataclass(frozen=True)
class Need:
    access: str
    name: str
    only_when_missing: bool


@dataclass(frozen=True)
class Row:
    request: str
    subject: str | None
    needs: tuple[Need, ...]
    there: str
    missing: str


@dataclass(frozen=True)
class Grants:
    """A user's three patterns in one vhost, under the name of the idea behind them."""

    idea: str
    configure: str
    write: str
    read: str

    def allow(self, access: str, name: str) -> bool:
        accesses = ACCESSES if access == "any" else (access,)
        return any(pattern and re.search(pattern, name) for pattern in map(self.__getattribute__, accesses))


def rows() -> list[Row]:
    return [_row(*(column.strip() for column in line.split("|"))) for line in SPEC.strip().splitlines()]


def _row(request: str, subject: str, needs: str, there: str, missing: str) -> Row:
    return Row(
        request, None if subject == "-" else subject, tuple(map(_need, filter(None, needs.split(",")))), there, missing
    )


def _need(text: str) -> Need:
    access, name = text.split()
    if name == "amq.gen-*":
        return Need(access, name, False)
    return Need(access, name.removesuffix("*"), name.endswith("*"))


def all_grants(row: Row) -> list[Grants]:
    """Nothing, one kind, all but one kind, all; exactly what is needed, that less one, and that for a neighbour's name."""
    found = [
        Grants("nothing", "", "", ""),
        Grants("nothing, by a pattern", "^$", "^$", "^$"),
        Grants("all", ".*", ".*", ".*"),
    ]
    for one in ACCESSES:
        found.append(Grants(f"{one} only", *(".*" if access == one else "" for access in ACCESSES)))
        found.append(Grants(f"all but {one}", *("^$" if access == one else ".*" for access in ACCESSES)))
    if row.needs:
        found.append(_exactly("exactly that", row.needs))
        found.append(_exactly("neighbours", row.needs, neighbour=True))
        for place, need in enumerate(row.needs):
            less = row.needs[:place] + row.needs[place + 1 :]
            found.append(_exactly(f"that without {need.access} {need.name}", less))
    return found


def _exactly(idea: str, needs: tuple[Need, ...], neighbour: bool = False) -> Grants:
    patterns = dict.fromkeys(ACCESSES, "")
    for need in needs:
        access = "read" if need.access == "any" else need.access
        name = need.name.removesuffix("*")
        end = "-not$" if neighbour else "" if need.name.endswith("*") else "$"
        one = f"^{re.escape(name)}{end}"
        patterns[access] = f"{patterns[access]}|{one}" if patterns[access] else one
    return Grants(idea, patterns["configure"], patterns["write"], patterns["read"])


def refused_need(row: Row, grants: Grants, there: bool) -> Need | None:
    """The first permission that is lacking."""
    for need in row.needs:
        if need.only_when_missing and there:
            continue
        if not grants.allow(need.access, need.name.replace("-*", "-0123")):
            return need
    return None


def verdict(row: Row, grants: Grants, there: bool) -> str:
    if refused_need(row, grants, there) is not None:
        return "403"
    return row.there if there else row.missing
