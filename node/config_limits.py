"""The limits that the configuration sets, as the parts that keep to them take them."""

from __future__ import annotations

from broker.catalog import CatalogLimits
from broker.limits import Limits as ClientLimits
from classic.shelf import ClassicLimits
from node.config import Config


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
