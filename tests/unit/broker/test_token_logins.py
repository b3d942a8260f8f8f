"""Who logs in with a token: who that is, what the connection may do, how it is renewed, and when it ends."""

from __future__ import annotations

import pytest

from broker.broker import LOGIN_REFUSED
from broker.catalog.commands.catalog_commands import DeletePermission, DeleteUser, PutUser
from broker.errors import AccessRefused, NotAllowed, PreconditionFailed, ResourceExhausted
from broker.login.client_address import ClientAddress
from broker.messages.message import Run
from broker.operations.operator import Operator
from broker.operations.vhosts import Vhosts
from broker.pending import Pending
from broker.records import UserRecord, VhostRecord
from broker.vouched.vouched_user import VouchedUser
from tests.unit.broker.broker_world import NOW, SECRET, Client, World, refused
from tests.unit.broker.vouched.bearers import bearer

HERE = ClientAddress("127.0.0.1", 40_000, True, "AMQP 0-9-1")
ELSEWHERE = ClientAddress("192.0.2.1", 40_000, False, "AMQP 0-9-1")
EVERYTHING = ("configure:*/*/*", "write:*/*/*", "read:*/*/*")


class Tokens:
    """A token is `token NAME`. Fulfils TokenLogins."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    def is_token(self, secret: bytes) -> bool:
        return secret.startswith(b"token ")

    def log_in(self, token: bytes, source: str) -> Pending[VouchedUser]:
        self.asked.append(token)
        match token.split():
            case [b"token", b"busy"]:
                return Pending.failed(ResourceExhausted("too many logins are waiting"))
            case [b"token", name]:
                return Pending.of(bearer(name.decode(), *EVERYTHING))
        return Pending.failed(AccessRefused("it has expired"))


@pytest.fixture
def world() -> World:
    return World(tokens=Tokens())


def client(world: World, *scopes: str, until_ms: int | None = None) -> Client:
    connection = world.connection("ann", login=bearer("ann", *scopes, until_ms=until_ms))
    world.broker.open_connection(connection, world.now)
    return Client(world, connection)


# ------------------------------------------------------------------------- logging in


def test_a_token_in_the_place_of_a_password_says_who_it_is_and_the_name_beside_it_does_not_count(world: World) -> None:
    user = world.answer(world.broker.authenticate("guest", b"token ann", ELSEWHERE))
    assert user.name == "ann" and user.vouched is not None


def test_a_password_is_not_shown_to_whoever_judges_tokens_nor_a_token_to_whoever_judges_passwords(world: World) -> None:
    world.add_user("app")
    world.answer(world.broker.authenticate("app", SECRET, ELSEWHERE))
    assert world.broker._tokens.asked == []  # type: ignore[union-attr]
    refused(AccessRefused, LOGIN_REFUSED, lambda: world.answer(world.broker.authenticate("app", b"token ", HERE)))
    assert world.broker._tokens.asked == [b"token "]  # type: ignore[union-attr]


def test_why_a_token_is_refused_is_in_the_log_and_its_client_is_not_told(world: World) -> None:
    lines: list[str] = []
    world.broker.audit._warn = lines.append
    refused(AccessRefused, LOGIN_REFUSED, lambda: world.answer(world.broker.authenticate_token(b"token ", ELSEWHERE)))
    assert lines == [
        "login failed: an unknown user from 192.0.2.1:40000 over AMQP 0-9-1: the token is refused: it has expired"
    ]


def test_that_a_token_could_not_be_checked_now_is_no_refusal(world: World) -> None:
    with pytest.raises(ResourceExhausted):
        world.answer(world.broker.authenticate_token(b"token busy", ELSEWHERE))


def test_a_node_without_tokens_takes_none() -> None:
    world = World()
    for ask in (
        lambda: world.broker.authenticate_token(b"token ann", HERE),
        lambda: world.broker.authenticate("ann", b"token ann", HERE),
    ):
        refused(AccessRefused, LOGIN_REFUSED, lambda ask=ask: world.answer(ask()))  # type: ignore[misc]


def test_no_token_makes_somebody_guest_from_elsewhere(world: World) -> None:
    refused(
        AccessRefused, LOGIN_REFUSED, lambda: world.answer(world.broker.authenticate_token(b"token guest", ELSEWHERE))
    )
    assert world.answer(world.broker.authenticate_token(b"token guest", HERE)).name == "guest"


# ------------------------------------------------------------------------- what a connection may do


def test_a_virtual_host_is_entered_when_a_scope_is_about_it(world: World) -> None:
    client(world, "read:%2F/*")
    for scopes in (("read:other/*",), ("tag:management",), ()):
        with pytest.raises(NotAllowed, match="access to vhost '/' refused for user 'ann'"):
            client(world, *scopes)


def test_that_a_virtual_host_does_not_exist_is_told_to_whom_the_token_gives_the_tag(world: World) -> None:
    def enter(*scopes: str) -> str:
        connection = world.connection("ann", "nowhere", login=bearer("ann", *scopes))
        with pytest.raises(NotAllowed) as error:
            world.broker.open_connection(connection, world.now)
        return error.value.text

    assert enter("read:*/*") == "access to vhost 'nowhere' refused for user 'ann'"
    assert enter("read:*/*", "tag:monitoring") == "vhost nowhere not found"


def test_what_the_token_allows_is_allowed_and_nothing_else(world: World) -> None:
    ann = client(world, "configure:*/mine-*", "write:*/mine-*")
    ann.session.topology.declare_queue(
        "mine-1", passive=False, durable=True, exclusive=False, auto_delete=False, arguments={}, now=NOW
    )
    with pytest.raises(AccessRefused, match=r"write access to exchange 'amq\.default'"):
        ann.session.publisher.publish(Run("", "mine-1", b"", 1, 0, False, False), NOW)
    with pytest.raises(AccessRefused, match="read access to queue 'mine-1'"):
        ann.session.get("mine-1", True, NOW)


def test_a_user_of_the_same_name_is_another_one(world: World) -> None:
    world.add_user("ann")
    ann = client(world, "read:*/*")
    world.metadata.submit(PutUser(UserRecord("ann", "another hash")))
    world.metadata.submit(DeletePermission("ann", "/"))
    world.metadata.submit(DeleteUser("ann"))
    assert world.closed == []
    assert ann.connection in world.broker.connections()


def test_the_tag_that_lets_publish_for_others_comes_from_the_token(world: World) -> None:
    def publish(*more: str) -> None:
        one = client(world, "write:*/*", *more)
        one.session.publisher.publish(Run("", "q", b"", 1, 0, False, False, user_id="bob"), NOW)

    with pytest.raises(PreconditionFailed, match="user_id property set to 'bob' but authenticated user was 'ann'"):
        publish()
    publish("tag:impersonator")


def test_a_virtual_host_that_such_a_user_makes_has_no_permission_for_a_user_that_does_not_exist(world: World) -> None:
    ann = Operator.of(bearer("ann", "tag:administrator"))
    assert world.answer(Vhosts(world.broker).put(ann, VhostRecord("new"))) is False
    assert "new" in world.catalog.vhosts
    assert [one for one in world.catalog.all_permissions() if one.vhost == "new"] == []


# ------------------------------------------------------------------------- until when


def test_a_connection_ends_with_its_token(world: World) -> None:
    ann, bob = client(world, "read:*/*", until_ms=NOW + 1_000), client(world, "read:*/*")
    world.broker.tick(NOW + 999)
    assert world.closed == []
    world.broker.tick(NOW + 1_000)
    assert world.closed == [(ann.connection.id, "credential expired")]
    world.broker.tick(NOW + 1_000_000)
    assert len(world.closed) == 1
    assert bob.connection in world.broker.connections()


def test_a_token_that_ends_between_login_and_open_opens_nothing(world: World) -> None:
    with pytest.raises(NotAllowed, match="credential expired"):
        client(world, "read:*/*", until_ms=NOW)


def test_a_connection_that_has_gone_is_not_ended_and_costs_nothing(world: World) -> None:
    for _ in range(1_000):
        ann = client(world, "read:*/*", until_ms=NOW + 1_000_000)
        world.broker.connection_closed(ann.connection, NOW)
    assert len(world.broker._endings) == 0
    assert len(world.broker._timers._heap) < 300
    world.broker.tick(NOW + 1_000_000)
    assert world.closed == []


def test_a_renewed_connection_goes_on_with_what_its_new_token_says(world: World) -> None:
    ann = client(world, "configure:*/*", "read:*/*", until_ms=NOW + 1_000)
    world.broker.renew_login(ann.connection, bearer("ann", "read:*/*", until_ms=NOW + 5_000), NOW)
    world.broker.tick(NOW + 4_999)
    assert world.closed == []
    with pytest.raises(AccessRefused, match="configure access"):
        ann.session.topology.delete_queue("q", if_unused=False, if_empty=False, now=NOW)
    world.broker.tick(NOW + 5_000)
    assert world.closed == [(ann.connection.id, "credential expired")]


def test_what_was_cached_of_the_old_token_is_forgotten(world: World) -> None:
    ann = client(world, "write:*/*")
    run = Run("", "q", b"", 1, 0, False, False)
    ann.session.publisher.publish(run, NOW)
    world.broker.renew_login(ann.connection, bearer("ann", "read:*/*"), NOW)
    with pytest.raises(AccessRefused, match="write access"):
        ann.session.publisher.publish(run, NOW)


def test_a_connection_is_not_renewed_for_somebody_else_nor_where_the_token_does_not_let_in(world: World) -> None:
    ann = client(world, "read:*/*")
    with pytest.raises(NotAllowed, match="cannot become one of another user"):
        world.broker.renew_login(ann.connection, bearer("eve", "read:*/*"), NOW)
    with pytest.raises(NotAllowed, match="access to vhost '/' refused"):
        world.broker.renew_login(ann.connection, bearer("ann", "read:other/*"), NOW)
