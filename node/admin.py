"""What the fronts ask of the process itself: facts, alarms, the log level, password hashes."""

from __future__ import annotations

import gc
import logging
import os
import platform
import resource
from collections.abc import Callable, Sequence
from pathlib import Path

import native
from broker.alarms import Alarms
from broker.errors import BrokerError, PreconditionFailed, ResourceExhausted
from broker.operations.node_facts import AlarmFacts, CertificateFacts, ListenerFacts, NodeFacts
from broker.pending import Pending
from node.background import Background
from node.config import Config, ConfigError
from node.doors.certificates import Certificates
from node.effective_config import effective_config
from node.logins.auth import Verifier
from node.logins.password_hashes import Hashes
from node.version import VERSION as VERSION
from node.watching.alarms import Watcher
from node.watching.metrics import file_descriptors


def disk_bytes() -> dict[str, int]:
    """That this process had read from disks and written to them, as the kernel counts; nothing where it does not."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return {}
    return {name: int(count) for name, _, count in (line.partition(": ") for line in lines)}


class NodeAdmin:
    """Fulfils broker.operations.node_facts.NodePort."""

    def __init__(
        self,
        config: Config,
        *,
        verifier: Verifier,
        background: Background,
        alarms: Alarms,
        watcher: Watcher,
        listeners: Callable[[], Sequence[ListenerFacts]],
        certificates: Certificates,
        started_at_ms: int,
    ) -> None:
        self._config = config
        self._verifier = verifier
        self._background = background
        self._alarms = alarms
        self._watcher = watcher
        self._listeners = listeners
        self._certificates = certificates
        self._started_at_ms = started_at_ms

    @property
    def node_name(self) -> str:
        return self._config.node_name

    @property
    def identity(self) -> dict[str, str]:
        return {
            "product_name": "Leveret",
            "product_version": VERSION,
            "rabbit_version": self._config.amqp.announce_version,
            "rabbitmq_version": self._config.amqp.announce_version,
            "node": self._config.node_name,
            "cluster_name": self._config.cluster_name,
        }

    def facts(self) -> NodeFacts:
        measured = self._watcher.statistics()
        files_open, files_max = file_descriptors()
        disk, used = disk_bytes(), resource.getrusage(resource.RUSAGE_SELF)
        return NodeFacts(
            cluster_name=self._config.cluster_name,
            version=VERSION,
            python_version=platform.python_version(),
            kernels=native.backend(),
            process_id=os.getpid(),
            started_at_ms=self._started_at_ms,
            data_dir=os.path.abspath(self._config.node.data_dir),
            memory_bytes=measured["memory_used"],
            memory_limit_bytes=measured["memory_limit"],
            disk_free_bytes=measured["disk_free"],
            disk_free_limit_bytes=measured["disk_free_limit"],
            log_level=logging.getLevelName(logging.getLogger("leveret").level).lower(),
            files_open=files_open,
            files_max=files_max,
            processors=os.cpu_count() or 1,
            read_bytes=disk.get("read_bytes", 0),
            written_bytes=disk.get("write_bytes", 0),
            collections=sum(generation["collections"] for generation in gc.get_stats()),
            context_switches=used.ru_nvcsw + used.ru_nivcsw,
            listeners=self._listeners(),
        )

    def effective_config(self) -> str:
        return effective_config(self._config)

    def alarms(self) -> Sequence[AlarmFacts]:
        return [AlarmFacts(alarm.kind, alarm.reason, alarm.since) for alarm in self._alarms.raised()]

    def certificate(self) -> CertificateFacts | None:
        try:
            until = self._certificates.not_after()
        except ConfigError as error:
            raise PreconditionFailed(str(error)) from error
        return None if until is None else CertificateFacts(self._config.tls.certificate, int(until.timestamp() * 1000))

    def set_log_level(self, level: str) -> None:
        logging.getLogger("leveret").setLevel(level.upper())

    def hash_password(self, password: bytes, current: str | None = None) -> Pending[str]:
        pending: Pending[str] = Pending()

        def done(value: str | None, error: Exception | None) -> None:
            if value is not None:
                pending.resolve(value)
            elif isinstance(error, BrokerError):
                pending.fail(error)
            else:
                pending.fail(ResourceExhausted(f"the password could not be hashed: {type(error).__name__}"))

        self._background.run(lambda: self._verifier.hash(password, current), done)
        return pending

    @property
    def password_hashes(self) -> Hashes:
        return Hashes()
