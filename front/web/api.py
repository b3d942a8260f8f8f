"""The management API: who asks, which path it is, what they may do there, and the answer.

The paths lie in front/web/resources/. A refusal of the broker becomes the status that RabbitMQ's management plugin gives it.
Everything that changes something answers when it is durable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from broker.errors import AccessRefused, BrokerError, ResourceExhausted
from broker.login.audit import Actor, acting_for
from broker.operations.operations import Operations
from broker.operations.operator import MANAGEMENT, Operator
from broker.pending import Pending
from broker.records import UserRecord
from front.answers import answered
from front.cluster_federation import ClusterFederation
from front.cluster_shovels import ClusterShovels
from front.member_moves import MemberMoves
from front.message_lives import MessageLives
from front.node_ports import ClusterPort, LogTailPort, MessageLivesPort, MetricsPort, QueueMembersPort, ReplayLogPort
from front.replaying import Replaying
from front.web.everywhere import Everywhere
from front.web.handlers import WebFront
from front.web.http.compression import compressed
from front.web.http.refusals import http_error
from front.web.http.request import RETRY_SOON, HttpError, Request, Response, error_response
from front.web.message_flows import MessageFlows
from front.web.page_files import PageFiles
from front.web.resources.bindings_api import BindingsApi
from front.web.resources.clients_api import ClientsApi
from front.web.resources.conversions_api import ConversionsApi
from front.web.resources.definitions_api import DefinitionsApi
from front.web.resources.exchanges_api import ExchangesApi
from front.web.resources.federation_api import FederationApi
from front.web.resources.limits_api import LimitsApi
from front.web.resources.login_api import LoginApi
from front.web.resources.messages.browsing_api import BrowsingApi
from front.web.resources.messages.delayed_api import DelayedApi
from front.web.resources.messages.lives_api import LivesApi
from front.web.resources.messages.messages_api import MessagesApi
from front.web.resources.messages.redrive_api import RedriveApi
from front.web.resources.messages.replay_api import ReplayApi
from front.web.resources.nodes.activity_api import ActivityApi
from front.web.resources.nodes.decommission_api import DecommissionApi
from front.web.resources.nodes.features_api import FeaturesApi
from front.web.resources.nodes.groups_api import GroupsApi
from front.web.resources.nodes.health_api import HealthApi
from front.web.resources.nodes.member_moves_api import MovesApi
from front.web.resources.nodes.metrics_api import MetricsApi
from front.web.resources.nodes.nodes_api import NodesApi
from front.web.resources.nodes.overview_api import OverviewApi
from front.web.resources.nodes.replicas_api import ReplicasApi
from front.web.resources.parameters_api import ParametersApi
from front.web.resources.permissions_api import PermissionsApi
from front.web.resources.policies_api import PoliciesApi
from front.web.resources.queues_api import QueuesApi
from front.web.resources.shovels_api import ShovelsApi
from front.web.resources.stream_clients_api import StreamClientsApi
from front.web.resources.streams_api import StreamsApi
from front.web.resources.users_api import UsersApi
from front.web.resources.vhosts_api import VhostsApi
from front.web.router import WebRouter
from front.web.samples.sampler import Sampler
from front.web.security.access import Right, check_access
from front.web.security.browser_logins import BrowserLogins
from front.web.security.cross_origin import NO_CROSS_ORIGIN, CrossOrigin
from front.web.security.origin import check_cookies_origin, check_origin
from front.web.vhost_header import found_route

if TYPE_CHECKING:
    from broker.broker import Broker

# A request is whole before its credentials are looked at, so this is what a stranger can make the node keep.
STRANGERS_BODY_BYTES_MAX = 65_536
BODY_BYTES_MAX = 10_485_760

VARY = ("Vary", "Accept-Encoding, Origin")


@dataclass(slots=True, frozen=True)
class WebPorts:
    """What the API shows and changes, beside the broker."""

    operations: Operations
    metrics: MetricsPort
    wall_ms: Callable[[], int]
    metrics_login: bool
    versions: dict[str, Any]  # of the product, as tools know them: they choose by them what they do
    everywhere: Everywhere
    shovels: ClusterShovels
    federation: ClusterFederation
    moves: MemberMoves
    cluster: ClusterPort | None = None  # None: this node cannot be in one
    members: QueueMembersPort | None = None  # None: there are no quorum queues
    cross_origin: CrossOrigin = NO_CROSS_ORIGIN
    login_session_minutes: int = 480
    log_tail: LogTailPort | None = None  # None: nobody keeps the last lines
    lives: MessageLivesPort | None = None  # None: nobody reads the log
    replay_log: ReplayLogPort | None = None  # the same


class Api:
    """Answers requests for one node."""

    def __init__(self, broker: Broker, ports: WebPorts) -> None:
        self._broker = broker
        self._ports = ports
        self._vhosts = ports.operations.vhosts
        self._browser_logins = BrowserLogins(
            lambda name: broker.catalog.users.get(name), broker.node, ports.login_session_minutes
        )
        self.everywhere = ports.everywhere
        self.router = WebRouter()
        front = WebFront(broker, ports.operations, ports.wall_ms)
        self.sampler = Sampler(front.samples)
        self._add_routes(front)

    async def answer(self, request: Request) -> Response:
        """The response to any request."""
        try:
            response = await self._answered(request)
        except HttpError as error:
            response = error_response(error)
        allowed = self._ports.cross_origin.headers(request)
        return await compressed(request, replace(response, headers=(*response.headers, *allowed, VARY)))

    async def _answered(self, request: Request) -> Response:
        route, named = found_route(self.router, request)
        check_origin(request, self._ports.cross_origin)
        try:
            if route.right is not Right.NONE:
                user = request.user or await self._log_in(request)
                check_access(route.right, Operator.of(user), named, self._vhosts)
            return await route.handler(request, **named)
        except BrokerError as error:
            raise http_error(error) from error

    async def body_bytes_max(self, request: Request) -> int:
        """How large the body of this request, of which only the head is known, may be. Raises HttpError.

        A stranger cannot make the node keep much, but an operator may import what a whole node has declared.
        """
        length = request.headers.get(b"content-length", b"")
        is_short = length.isdigit() and int(length) <= STRANGERS_BODY_BYTES_MAX
        has_none = not length and b"transfer-encoding" not in request.headers
        has_login = b"authorization" in request.headers or self._browser_logins.token_of(request) is not None
        if is_short or has_none or not has_login:
            return STRANGERS_BODY_BYTES_MAX
        user = await self._log_in(request)
        if not Operator.of(user).has_tag(MANAGEMENT):
            return STRANGERS_BODY_BYTES_MAX
        return BODY_BYTES_MAX

    def _add_routes(self, front: WebFront) -> None:
        ports, flows = self._ports, MessageFlows(front, self.everywhere)
        for one in (
            MetricsApi(ports.metrics, with_login=ports.metrics_login),
            LoginApi(self._browser_logins, self._log_browser_in),
            OverviewApi(front, self.everywhere, ports.versions),
            NodesApi(front, self.everywhere, ports.cluster, ports.versions),
            HealthApi(front, ports.cluster),
            FeaturesApi(front),
            DefinitionsApi(front),
            UsersApi(front),
            VhostsApi(front, self.everywhere),
            PermissionsApi(front),
            PoliciesApi(front, operators=False),
            PoliciesApi(front, operators=True),
            ParametersApi(front),
            ShovelsApi(front, ports.shovels),
            FederationApi(ports.federation),
            LimitsApi(front),
            ClientsApi(front, self.everywhere, flows),
            StreamClientsApi(front),
            StreamsApi(front),
            ExchangesApi(front, self.everywhere, flows),
            ReplicasApi(front, ports.members),
            MovesApi(front, self.everywhere, ports.moves, ports.members),
            QueuesApi(front, self.everywhere, flows, ports.members),
            BindingsApi(front),
            MessagesApi(front),
            BrowsingApi(front),
            LivesApi(front, MessageLives(self._broker, ports.lives)),
            DelayedApi(front),
            RedriveApi(front, self.everywhere),
            ConversionsApi(front),
            ReplayApi(
                front, self.everywhere, Replaying(self._broker, ports.operations, ports.replay_log, ports.members)
            ),
            ActivityApi(front, self.everywhere, ports.log_tail),
            DecommissionApi(front, self.everywhere, ports.cluster),
            GroupsApi(front, self.everywhere, ports.cluster, ports.members),
            PageFiles(),
        ):
            one.add_routes(self.router)

    async def _log_in(self, request: Request) -> UserRecord:
        """By name and password, or a token, or else by the cookie of a login."""
        token = request.bearer_token
        if token is not None:
            return await self._verified(request, self._broker.authenticate_token(token, request.client))
        user = None if b"authorization" in request.headers else self._user_of_cookie(request)
        if user is None:
            return await self._verify(request, *request.credentials())
        check_cookies_origin(request)
        return _serves(request, user)

    def _user_of_cookie(self, request: Request) -> UserRecord | None:
        token = self._browser_logins.token_of(request)
        return None if token is None else self._browser_logins.user_of(token, request.client, request.now)

    async def _log_browser_in(self, request: Request, name: str, password: bytes) -> UserRecord:
        """Who may begin one. Raises HttpError."""
        user = await self._verify(request, name, password)
        check_access(Right.MANAGEMENT, Operator.of(user), {}, self._vhosts)
        return user

    async def _verify(self, request: Request, name: str, password: bytes) -> UserRecord:
        """Raises HttpError."""
        return await self._verified(request, self._broker.authenticate(name, password, request.client))

    async def _verified(self, request: Request, pending: Pending[UserRecord]) -> UserRecord:
        """Raises HttpError."""
        try:
            user = await answered(pending)
        except ResourceExhausted as error:
            raise HttpError(503, "service_unavailable", error.text, RETRY_SOON) from error
        except AccessRefused as error:
            raise HttpError(
                401, "not_authorized", "user, password or token is wrong, or not accepted from this address"
            ) from error
        return _serves(request, user)


def _serves(request: Request, user: UserRecord) -> UserRecord:
    """The rest of the request is done for this user."""
    acting_for(Actor(user.name, request.client))
    request.user = user
    return user
