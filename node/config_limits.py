"""The limits that the configuration sets, as the parts that keep to them take them."""

from __future__ import annotations

from dataclasses import replace

from broker.catalog.parts.catalog_limits import CatalogLimits
from broker.history_level import LEVELS
from broker.limits import Limits as ClientLimits
from classic.store.node_storage import ClassicLimits
from front.amqp.terms import Limits
from front.grpc.server import GrpcLimits
from front.sockets.client_server import ServerLimits
from front.stream.stream_terms import StreamLimits
from node.config import AmqpSection, Config, GrpcSection
from node.foundation import LogSettings
from node.kernel_settings import KernelSettings
from node.watching.descriptors import Ceilings
from storage.archive.archive_window import ArchiveLimits

ARCHIVE_FREE_MIN_BYTES = 1 << 30  # free on the disk, unless the operator says otherwise: what is kept must not be felt


def client_limits(config: Config) -> ClientLimits:
    limits = config.limits
    return ClientLimits(
        connections=limits.connections,
        channels_per_node=limits.channels_per_node,
        consumers_per_channel=limits.consumers_per_channel,
    )


def classic_limits(config: Config) -> ClassicLimits:
    section = config.classic
    return ClassicLimits(
        embed_below=section.queue_index_embed_msgs_below,
        store_file_bytes_max=section.store_file_bytes_max,
        compaction_interval_ms=section.compaction_interval_ms,
    )


def catalog_limits(config: Config) -> CatalogLimits:
    limits = config.limits
    return CatalogLimits(
        vhosts=limits.vhosts,
        queues=limits.queues,
        exchanges=limits.exchanges,
        bindings=limits.bindings,
        topic_wildcards=limits.topic_wildcards,
        regex_length=limits.regex_length,
    )


def archive_limits(config: Config) -> ArchiveLimits | None:
    section = config.archive
    if section.hours == 0:
        return None
    free_min_bytes = section.free_min_bytes or max(2 * config.disk.free_limit_bytes, ARCHIVE_FREE_MIN_BYTES)
    return ArchiveLimits(section.hours, section.bytes_max, free_min_bytes)


def kernel_settings(config: Config) -> KernelSettings:
    return KernelSettings(
        log=LogSettings(
            config.log.file_bytes_max,
            config.log.commit_inline_bytes_max,
            snapshot_bytes_per_s=config.log.snapshot_bytes_per_s,
        ),
        classic=classic_limits(config),
        clients=client_limits(config),
        catalog=catalog_limits(config),
        gathering_bytes_max=config.log.gathering_bytes_max,
        grows=config.quorum.reconcile,
        reconcile_interval_ms=1000 * config.quorum.reconcile_interval_s,
        zone=config.zone,
        archive=archive_limits(config),
        history=LEVELS[config.history.level],
        older_catalog=config.node.older_catalog,
    )


def amqp_limits(section: AmqpSection) -> Limits:
    return Limits(
        channel_max=section.channel_max,
        frame_max=section.frame_max,
        initial_frame_max=section.initial_frame_max,
        heartbeat_s=section.heartbeat_s,
        message_bytes_max=section.message_bytes_max,
        handshake_timeout_s=section.handshake_timeout_ms / 1000,
        refusal_pause_s=section.authentication_failure_delay_ms / 1000,
        close_timeout_s=section.close_timeout_ms / 1000,
        write_buffer_high_bytes=section.write_buffer_high_bytes,
    )


def amqp_server_limits(config: Config, ceilings: Ceilings) -> ServerLimits:
    return ServerLimits(
        connections=ceilings.amqp,
        unauthenticated_connections=ceilings.unauthenticated,
        unauthenticated_per_source=ceilings.unauthenticated_per_source,
        tls_handshake_timeout_s=config.amqp.tls_handshake_timeout_ms / 1000,
        write_buffer_low_bytes=config.amqp.write_buffer_low_bytes,
        backlog=config.listen.backlog,
    )


def stream_limits(config: Config) -> StreamLimits:
    section = config.stream
    return StreamLimits(
        frame_max=section.frame_max,
        initial_frame_max=config.amqp.initial_frame_max,
        heartbeat_s=section.heartbeat_s,
        step_timeout_s=section.handshake_timeout_ms / 1000,
        refusal_pause_s=config.amqp.authentication_failure_delay_ms / 1000,
        write_buffer_high_bytes=config.amqp.write_buffer_high_bytes,
        outstanding_messages_max=section.outstanding_messages_max,
        outstanding_bytes_max=section.outstanding_bytes_max,
    )


def stream_server_limits(config: Config, ceilings: Ceilings) -> ServerLimits:
    """As for AMQP, with ceilings for its own connections."""
    return replace(
        amqp_server_limits(config, ceilings),
        connections=ceilings.stream,
        unauthenticated_connections=min(ceilings.unauthenticated, max(1, ceilings.stream // 2)),
        unauthenticated_per_source=min(ceilings.unauthenticated_per_source, max(1, ceilings.stream // 4)),
        connections_key="limits.stream_connections",
    )


def grpc_limits(section: GrpcSection, ceilings: Ceilings) -> GrpcLimits:
    return GrpcLimits(
        section.message_bytes_max,
        section.streams_max,
        section.metadata_bytes_max,
        section.keepalive_min_interval_ms,
        section.handshake_timeout_ms,
        section.connection_idle_max_ms,
        ceilings.grpc,
        min(ceilings.unauthenticated, max(1, ceilings.grpc // 2)),
        min(ceilings.unauthenticated_per_source, max(1, ceilings.grpc // 4)),
    )
