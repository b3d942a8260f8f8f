"""Every option of a node, in one immutable place, with its default and the reason for it.

`deploy/leveret.toml` shows the same options as a file; a test keeps the two equal. Unknown keys and wrong types are
refused at start, with the path of the key in the message. Sizes are bytes, times say their unit.
"""

from __future__ import annotations

import difflib
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from broker.errors import PreconditionFailed
from broker.history_level import LEVELS
from broker.names import check_name
from links.shovel.definition import read_definition
from node import addresses
from node.logins.password_hashes import HASHINGS

STREAM_FRAME_MAX_MIN = 8_192  # what a client may send before it is tuned
BUSY_POLL_US_MAX = 10_000
EXPORT_BYTES_PER_S_MIN = 65_536
SNAPSHOT_BYTES_PER_S_MIN = 1_048_576  # who is sent less is asked again and again what it lacks
# With less of these a node would serve nobody, or do nothing but look at the time. Of all other numbers 0 is the least.
AT_LEAST_1 = """
    listen.backlog amqp.tls_handshake_timeout_ms amqp.message_bytes_max amqp.write_buffer_high_bytes grpc.message_bytes_max
    grpc.streams_max grpc.metadata_bytes_max grpc.handshake_timeout_ms grpc.connection_idle_max_ms memory.nodes_on_machine
    memory.check_interval_ms disk.check_interval_min_ms disk.check_interval_max_ms log.gathering_bytes_max
    classic.store_file_bytes_max classic.compaction_interval_ms quorum.reconcile_interval_s management.login_session_minutes"""
LEAST = {**dict.fromkeys(AT_LEAST_1.split(), 1), "amqp.initial_frame_max": 4_096, "log.file_bytes_max": 65_536}
# What has 16 or 32 bits where clients are told of it.
MOST = {
    **dict.fromkeys(("amqp.channel_max", "amqp.heartbeat_s"), 0xFFFF),
    **dict.fromkeys(("stream.advertised_port", "stream.advertised_tls_port"), 0xFFFF),
    **dict.fromkeys(("amqp.frame_max", "amqp.initial_frame_max", "stream.frame_max", "stream.heartbeat_s"), 0xFFFFFFFF),
}
CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f]")  # names are written into logs and on terminals


class ConfigError(Exception):
    """The configuration cannot be used; the text names the file, the key and the value."""


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the configuration file. Keys that do not exist are refused, so that a typing error is seen at once."""


class NodeSection(Section, frozen=True):
    name: str = ""  # empty: leveret@ and the host's short name
    cluster_name: str = ""  # empty: the node's name; shown to clients and in metrics
    data_dir: str = "var"
    # Go on with a catalog older than the log: messages of queues that it does not know are lost.
    older_catalog: bool = False
    # How long the event loop goes on looking for input behind what came before it sleeps: for machines that have a core for it.
    busy_poll_us: int = 0


class ListenSection(Section, frozen=True):
    amqp: tuple[str, ...] = ("127.0.0.1:5672", "[::1]:5672")  # ::1 is left out where there is no IPv6
    amqps: tuple[str, ...] = ()  # needs tls.certificate and tls.key
    stream: tuple[str, ...] = ("127.0.0.1:5552", "[::1]:5552")  # the stream protocol
    streams: tuple[str, ...] = ()  # the same within TLS; needs tls.certificate and tls.key
    grpc: tuple[str, ...] = ("127.0.0.1:5680", "[::1]:5680")
    http: tuple[str, ...] = ("127.0.0.1:15672", "[::1]:15672")
    https: tuple[str, ...] = ()  # needs tls.certificate and tls.key
    peer: str = "127.0.0.1:5681"  # for other nodes; nothing listens there unless there is a cluster.secret
    proxy_protocol: bool = False  # listeners for AMQP and streams expect a PROXY v1 or v2 header from a load balancer
    backlog: int = 4096  # connections the kernel keeps waiting; it may allow fewer (net.core.somaxconn)


class ClusterSection(Section, frozen=True):
    """Which other nodes there are, and how they know each other. A node with neither peers, dns nor join founds a cluster
    of its own, which others may join when there is a secret."""

    secret: str = (
        ""  # what all nodes know and nobody else: at least 16 bytes, random ones; empty: this node stays alone
    )
    secret_file: str = ""  # or a file with it; white space around it does not count
    peers: tuple[str, ...] = ()  # HOST:PORT of the nodes' peer listeners, the same list on all of them
    dns: str = ""  # or NAME:PORT, where the name's addresses are the nodes
    nodes_expected: int = 0  # with dns: addresses that the name must have before a cluster is founded
    join: str = ""  # HOST:PORT of any node of the cluster that this node belongs to; it never founds one
    advertise: str = ""  # HOST:PORT where other nodes reach this one; empty: listen.peer
    ram: bool = False  # keep nothing of what is declared on disk, and have no vote about it
    zone: str = ""  # what fails together, such as a machine or a rack; empty: the host's name
    tls_certificate: str = ""  # PEM file; with it nodes show each other certificates, beside the secret
    tls_key: str = ""
    tls_ca: str = ""  # PEM file: who has signed the nodes' certificates


class TlsSection(Section, frozen=True):
    certificate: str = ""  # PEM file
    key: str = ""
    ca: str = ""  # PEM file; with it, clients may (or must) show a certificate
    verify_peer: bool = False  # True: a client without a valid certificate is refused
    grpc: bool = False  # serve gRPC with this certificate too
    username_from: str = "common-name"  # what EXTERNAL takes as the user: common-name or distinguished-name


class AuthSection(Section, frozen=True):
    password_hashing: str = "argon2id"  # of new passwords: argon2id, or sha256 or sha512 as RabbitMQ has them


class Oauth2Section(Section, frozen=True):
    """Logins with tokens of OAuth 2 (docs/tokens.md), beside those with passwords."""

    resource_server_id: str = ""  # who this cluster is to issuers of tokens; empty: no tokens are taken
    scope_prefix: str = "{resource_server_id}."  # of scopes that are for this cluster; empty: all are
    verify_aud: bool = True  # a token is for this cluster only where its aud says so
    issuer: str = ""  # what iss has to be; empty: it is not looked at
    jwks_url: str = ""  # where the issuer publishes its keys: https://..., or http://... of this machine
    jwks_ca: str = ""  # PEM file: who has signed its certificate; empty: whom this machine trusts
    keys: dict[str, str] = {}  # or files with keys, by key id (kid): a PEM public key or certificate, or a JWK
    default_key: str = ""  # key id for tokens that name none
    algorithms: tuple[str, ...] = ()  # of signatures, such as RS256; empty: each that its key can be used with
    additional_scopes_key: str = ""  # claims with more scopes, spaces between them: roles realm_access.roles
    scope_aliases: dict[
        str, str
    ] = {}  # scopes of other programs, and for which of ours each stands, spaces between them
    preferred_username_claims: tuple[str, ...] = ("sub", "client_id")  # the first that a token has names its user
    require_exp: bool = True  # a token without an end is refused
    leeway_s: int = 5  # by which clocks may differ, at the beginning and at the end of a token


class DefinitionsSection(Section, frozen=True):
    path: str = ""  # imported at each start: a file, or a folder with *.json files; a new cluster then has no guest


class AmqpSection(Section, frozen=True):
    """Limits of the AMQP protocol; the values are RabbitMQ's unless said."""

    channel_max: int = 2047
    frame_max: int = 131_072
    initial_frame_max: int = 8_192  # before tuning; also bounds what an unauthenticated peer can make us buffer
    heartbeat_s: int = 60
    message_bytes_max: int = 16_777_216
    handshake_timeout_ms: int = 10_000
    tls_handshake_timeout_ms: int = 5_000
    authentication_failure_delay_ms: int = 3_000  # slows guessing by clients that cannot be told of a refusal
    anonymous_login_user: str = "guest"  # as whom the mechanism ANONYMOUS logs in; empty: it is not offered
    anonymous_login_password: str = "guest"  # has to be this user's: with another one nobody comes in
    announce_product: bool = True  # tell clients that this is RabbitMQ, for some do by it what they know to work there
    announce_version: str = "3.13.7"  # and which; kombu from 5.7 on has Celery's ETA tasks starve a worker from 4.0 on
    close_timeout_ms: int = 30_000
    write_buffer_high_bytes: int = 4_194_304  # above it nothing more is delivered to this connection
    write_buffer_low_bytes: int = 1_048_576


class StreamSection(Section, frozen=True):
    """Limits of the stream protocol; the values are RabbitMQ's unless said. 0 is no limit."""

    advertised_host: str = (
        ""  # where clients reach this node; empty: the address it listens on, or if that is any, the host's name
    )
    advertised_port: int = 0  # 0: the port it listens on
    advertised_tls_port: int = 0  # the same for clients within TLS
    frame_max: int = 1_048_576
    heartbeat_s: int = 60
    handshake_timeout_ms: int = 10_000  # for each step
    outstanding_messages_max: int = 50_000  # of one connection, neither confirmed nor refused: it is not read from
    outstanding_bytes_max: int = 67_108_864


class GrpcSection(Section, frozen=True):
    message_bytes_max: int = 16_777_216
    streams_max: int = 1_000  # concurrent calls on one connection
    metadata_bytes_max: int = 16_384
    keepalive_min_interval_ms: int = 10_000  # pings more often than this end the connection
    handshake_timeout_ms: int = 10_000
    connection_idle_max_ms: int = 300_000  # a connection without a call is closed; clients open a new one by themselves


class LimitsSection(Section, frozen=True):
    """Ceilings that keep one client, or one mistake, from taking the node down. 0 is no limit."""

    connections: int = 16_000  # over AMQP
    stream_connections: int = 1_000  # over the stream protocol
    http_connections: int = 1_000
    grpc_connections: int = 2_000
    unauthenticated_connections: int = 1_000  # accepted but not logged in yet; of AMQP, streams and gRPC, each
    unauthenticated_per_source: int = 500  # of one address, or one IPv6 network of 64 bits; the oldest give way
    channels_per_node: int = 0
    consumers_per_channel: int = 10_000
    vhosts: int = 1_000
    queues: int = 200_000
    exchanges: int = 100_000
    bindings: int = 1_000_000
    topic_wildcards: int = 2  # number of # words that one binding key may hold
    regex_length: int = 1_024


class MemorySection(Section, frozen=True):
    high_watermark: float = 0.4  # share of the machine's (or cgroup's) memory above which publishers are held
    high_watermark_bytes: int = 0  # absolute; wins over the share when not 0
    nodes_on_machine: int = 1  # how many nodes have this machine's memory together; the share is divided by it
    paging_ratio: float = 0.5  # of the watermark, from where on queues keep only what they need in memory
    check_interval_ms: int = 250  # a publisher can send a lot in a second


class DiskSection(Section, frozen=True):
    free_limit_bytes: int = (
        50_000_000  # publishers are held below; never less than the node needs to go on (node/watching/alarms.py)
    )
    check_interval_min_ms: int = 100  # when space is nearly out
    check_interval_max_ms: int = 10_000


class LogSection(Section, frozen=True):
    file_bytes_max: int = 67_108_864  # a file rolls when it is full; what still lives then goes to segments
    commit_inline_bytes_max: int = (
        131_072  # a smaller commit that finds the writer idle is written without a thread hop
    )
    gathering_bytes_max: int = 33_554_432  # waiting for the disk above this: publishers are not read from
    # Snapshots sent to members on other nodes that lack too much of a queue, all of this node together; 0: no limit.
    snapshot_bytes_per_s: int = 115_343_360


class HistorySection(Section, frozen=True):
    """What the log says of who did what, for questions asked later (docs/history.md). Names of users and addresses of
    clients are personal data."""

    level: str = "basic"  # off, basic, full
    export_bytes_per_s: int = 33_554_432  # read for all exports of the log together


class ArchiveSection(Section, frozen=True):
    """Files of the log that nothing needs any more are kept for questions asked later (docs/history.md). They hold what clients
    published, for that long, also when it was acknowledged or purged."""

    hours: int = 0  # how long; 0: nothing is kept
    bytes_max: int = 10_737_418_240  # the oldest go first
    free_min_bytes: int = 0  # with less free on the disk they go first; 0: twice disk.free_limit_bytes, at least 1 GiB


class ClassicSection(Section, frozen=True):
    queue_index_embed_msgs_below: int = (
        4_096  # smaller messages lie beside the queue's index, larger in the shared store
    )
    store_file_bytes_max: int = 16_777_216
    compaction_interval_ms: int = 15_000


class QuorumSection(Section, frozen=True):
    """How many members quorum queues have when nodes come and go. A member on a node that was removed from the cluster is
    replaced in any case."""

    reconcile: bool = False  # give queues that have fewer members than their target more, when there are nodes for them
    reconcile_interval_s: int = 3_600  # between two looks for such queues, a quarter more or less


class MetricsSection(Section, frozen=True):
    cache_ms: int = 1_000  # who asks more often, and may be a stranger, is given what was counted before
    login: bool = False  # /metrics asks for a user with the tag monitoring, as the rest of the HTTP port does


class ManagementSection(Section, frozen=True):
    """The HTTP API for operators."""

    login_session_minutes: int = 480  # how long a browser that has logged in is known
    cors_allow_origins: tuple[
        str, ...
    ] = ()  # pages of other sites that may ask: https://HOST[:PORT], or * without logins
    cors_max_age_s: int = 1_800  # how long a browser may remember that


class LoggingSection(Section, frozen=True):
    level: str = "info"  # debug, info, warning, error
    file: str = ""  # empty: standard error
    json: bool = False


class Config(Section, frozen=True):
    """The whole configuration of one node."""

    node: NodeSection = NodeSection()
    listen: ListenSection = ListenSection()
    cluster: ClusterSection = ClusterSection()
    tls: TlsSection = TlsSection()
    auth: AuthSection = AuthSection()
    oauth2: Oauth2Section = Oauth2Section()
    definitions: DefinitionsSection = DefinitionsSection()
    amqp: AmqpSection = AmqpSection()
    stream: StreamSection = StreamSection()
    grpc: GrpcSection = GrpcSection()
    limits: LimitsSection = LimitsSection()
    memory: MemorySection = MemorySection()
    disk: DiskSection = DiskSection()
    log: LogSection = LogSection()
    history: HistorySection = HistorySection()
    archive: ArchiveSection = ArchiveSection()
    classic: ClassicSection = ClassicSection()
    quorum: QuorumSection = QuorumSection()
    metrics: MetricsSection = MetricsSection()
    management: ManagementSection = ManagementSection()
    logging: LoggingSection = LoggingSection()
    shovel: tuple[dict[str, Any], ...] = ()  # each with a name, and the keys that the parameter of a shovel has

    @property
    def node_name(self) -> str:
        return self.node.name or f"leveret@{socket.gethostname().split('.')[0]}"

    @property
    def cluster_name(self) -> str:
        return self.node.cluster_name or self.node_name

    @property
    def zone(self) -> str:
        return self.cluster.zone or socket.gethostname().split(".")[0]

    @property
    def clustered(self) -> bool:
        """Whether this node talks to others at all."""
        return bool(self.cluster.secret or self.cluster.secret_file)


def load(path: Path) -> Config:
    """The configuration in this TOML file; `check` it when the command line has had its say. Raises ConfigError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}") from error
    try:
        return msgspec.toml.decode(content.decode(), type=Config)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path}: {error}{_suggestion(str(error))}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: {error}") from error


def _suggestion(error: str) -> str:
    """Behind what is said of an unknown key: the one that was meant, or all of its table."""
    found = re.search(r"unknown field `(.*?)`(?: - at `\$\.(\w+)`)?$", error, re.DOTALL)
    if found is None:
        return ""
    table = getattr(Config(), found[2]) if found[2] else Config()
    close = difflib.get_close_matches(found[1], table.__struct_fields__, n=1)
    return f": did you mean {close[0]}?" if close else f": there are {', '.join(table.__struct_fields__)}"


def check(config: Config) -> None:
    """Refuse values that are well-formed but cannot work. Raises ConfigError."""
    if not 0 < config.memory.high_watermark <= 1:
        raise ConfigError(f"memory.high_watermark is {config.memory.high_watermark}: give a share above 0 and up to 1")
    if not 0 < config.memory.paging_ratio <= 1:
        raise ConfigError(f"memory.paging_ratio is {config.memory.paging_ratio}: give a share above 0 and up to 1")
    if config.amqp.frame_max < config.amqp.initial_frame_max:
        raise ConfigError(
            f"amqp.frame_max is {config.amqp.frame_max}: it may not be below amqp.initial_frame_max, "
            f"{config.amqp.initial_frame_max}"
        )
    if not re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", config.amqp.announce_version):
        raise ConfigError(
            f"amqp.announce_version is {config.amqp.announce_version!r}: give three numbers, as in 3.13.7"
        )
    for name in ("amqps", "streams", "https"):
        within_tls = getattr(config.listen, name)
        if within_tls and not (config.tls.certificate and config.tls.key):
            raise ConfigError(f"listen.{name} is {list(within_tls)}: it needs tls.certificate and tls.key")
    if 0 < config.stream.frame_max < STREAM_FRAME_MAX_MIN:
        raise ConfigError(f"stream.frame_max is {config.stream.frame_max}: give {STREAM_FRAME_MAX_MIN} or more, or 0")
    if config.tls.username_from not in ("common-name", "distinguished-name"):
        raise ConfigError(f"tls.username_from is {config.tls.username_from!r}: common-name or distinguished-name")
    if config.auth.password_hashing not in HASHINGS:
        raise ConfigError(
            f"auth.password_hashing is {config.auth.password_hashing!r}: give one of {', '.join(HASHINGS)}"
        )
    if config.logging.level not in ("debug", "info", "warning", "error"):
        raise ConfigError(f"logging.level is {config.logging.level!r}: debug, info, warning or error")
    if config.history.level not in LEVELS:
        raise ConfigError(f"history.level is {config.history.level!r}: {', '.join(LEVELS)}")
    if config.history.export_bytes_per_s < EXPORT_BYTES_PER_S_MIN:
        given = config.history.export_bytes_per_s
        raise ConfigError(f"history.export_bytes_per_s is {given}: give {EXPORT_BYTES_PER_S_MIN} or more")
    paced = config.log.snapshot_bytes_per_s
    if paced and paced < SNAPSHOT_BYTES_PER_S_MIN:
        raise ConfigError(f"log.snapshot_bytes_per_s is {paced}: give {SNAPSHOT_BYTES_PER_S_MIN} or more, or 0")
    if not 0 <= config.node.busy_poll_us <= BUSY_POLL_US_MAX:
        raise ConfigError(f"node.busy_poll_us is {config.node.busy_poll_us}: give 0 to {BUSY_POLL_US_MAX}")
    check_shovels(config)
    check_cluster(config)
    check_oauth2(config.oauth2)
    for name in ("amqp", "amqps", "stream", "streams", "grpc", "http", "https"):
        for address in getattr(config.listen, name):
            host_and_port(address, f"listen.{name}")
    check_numbers(config)


def check_numbers(config: Config) -> None:
    """What no other check is about. Raises ConfigError."""
    for key, value in _numbers(config):
        least, most = LEAST.get(key, 0), MOST.get(key)
        if not least <= value <= (value if most is None else most):
            raise ConfigError(f"{key} is {value}: give {least} {'or more' if most is None else f'to {most}'}")


def _numbers(config: Config) -> Iterator[tuple[str, float]]:
    for table in config.__struct_fields__:
        section = getattr(config, table)
        for name in section.__struct_fields__ if isinstance(section, Section) else ():
            value = getattr(section, name)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                yield f"{table}.{name}", value


def check_shovels(config: Config) -> None:
    """Raises ConfigError; never with a password in its text."""
    seen: set[str] = set()
    for number, table in enumerate(config.shovel, 1):
        name = table.get("name")
        if not isinstance(name, str) or not name:
            raise ConfigError(f'shovel {number} of the file has no name: give name = "..."')
        if name in seen:
            raise ConfigError(f"shovel.name is {name!r} twice: each needs a name of its own")
        try:
            check_name("shovel", name)  # as for the claim on it: nodes would try to take that for ever
        except PreconditionFailed as error:
            raise ConfigError(f"shovel {number} of the file: {error.text}") from error
        if CONTROL_CHARACTERS.search(name):
            raise ConfigError(f"shovel {number} of the file: its name {name!r} has control characters")
        seen.add(name)
    for name, definition in static_shovels(config).items():
        try:
            read_definition(name, definition)
        except ValueError as error:
            raise ConfigError(f"shovel '{name}': {error}") from error


def static_shovels(config: Config) -> dict[str, dict[str, Any]]:
    """Their definitions, by name."""
    return {one["name"]: {key: value for key, value in one.items() if key != "name"} for one in config.shovel}


def check_oauth2(section: Oauth2Section) -> None:
    """Raises ConfigError. What needs the library for tokens is checked where they are begun with."""
    has_keys = bool(section.jwks_url or section.keys)
    if section.resource_server_id and not has_keys:
        raise ConfigError(
            "oauth2.resource_server_id is given: give oauth2.jwks_url or oauth2.keys too, to verify tokens with"
        )
    if has_keys and not section.resource_server_id:
        raise ConfigError("oauth2.jwks_url or oauth2.keys is given: give oauth2.resource_server_id too")


def check_cluster(config: Config) -> None:
    """Raises ConfigError."""
    cluster = config.cluster
    if cluster.secret and cluster.secret_file:
        raise ConfigError("cluster.secret and cluster.secret_file are both given: give one of them")
    ways = [name for name in ("peers", "dns", "join") if getattr(cluster, name)]
    if ways and not config.clustered:
        raise ConfigError(f"cluster.{ways[0]} needs cluster.secret or cluster.secret_file, the same on all nodes")
    if "peers" in ways and "dns" in ways:
        raise ConfigError("cluster.peers and cluster.dns are both given: give one of them")
    if cluster.dns and cluster.nodes_expected < 1:
        raise ConfigError(
            f"cluster.nodes_expected is {cluster.nodes_expected}: with cluster.dns, say how many addresses the name has when "
            f"all nodes are there. A cluster is not founded before"
        )
    if cluster.ram and not ways:
        raise ConfigError(
            "cluster.ram is true: a RAM node cannot be alone, give cluster.join, cluster.peers or cluster.dns"
        )
    given = [bool(cluster.tls_certificate), bool(cluster.tls_key), bool(cluster.tls_ca)]
    if any(given) and not all(given):
        raise ConfigError("cluster.tls_certificate, cluster.tls_key and cluster.tls_ca are to be given together")
    host, _ = host_and_port(config.listen.peer, "listen.peer")
    for key, given_there in (("peers", cluster.peers), ("dns", (cluster.dns,)), ("join", (cluster.join,))):
        for address in filter(None, given_there):
            host_and_port(address, f"cluster.{key}")
    if cluster.advertise:
        host, _ = host_and_port(cluster.advertise, "cluster.advertise")
    if config.clustered and host in ("0.0.0.0", "::"):
        raise ConfigError(
            f"listen.peer is {config.listen.peer!r}: give cluster.advertise, HOST:PORT where others reach it"
        )


def cluster_secret(config: Config) -> bytes:
    """What cluster.secret or cluster.secret_file holds. Raises ConfigError; never with the secret in the text."""
    path = config.cluster.secret_file
    if not path:
        return config.cluster.secret.encode()
    try:
        return Path(path).read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"cluster.secret_file {path} cannot be read: {error.strerror}") from error


def host_and_port(address: str, key: str) -> tuple[str, int]:
    """`127.0.0.1:5672` or `[::1]:5672` as its two parts. Raises ConfigError naming the option."""
    try:
        return addresses.host_and_port(address)
    except addresses.BadAddress as error:
        raise ConfigError(f"{key} is {error}") from error
