"""One real node for the whole folder: short deadlines, a low cap, its log at debug level and read at the end.

Every test logs in with the canary's password somewhere; at the end of the session neither it nor a token may be in the log,
and the log may not tell of a bug.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running_node import RunningNode, running_node
from tests.security.guarded_node import (
    CANARY,
    HANDSHAKE_TIMEOUT_MS,
    HTTP_CONNECTIONS,
    REFUSAL_PAUSE_MS,
    STRANGERS_MAX,
    Http,
)

CONFIG = f"""
[listen]
proxy_protocol = {{proxied}}

[amqp]
handshake_timeout_ms = {HANDSHAKE_TIMEOUT_MS}
authentication_failure_delay_ms = {REFUSAL_PAUSE_MS}

[limits]
connections = 2000
grpc_connections = 200
http_connections = {HTTP_CONNECTIONS}
unauthenticated_connections = {STRANGERS_MAX}

[logging]
level = "debug"
"""


def started(folder: Path, *, proxied: bool) -> Iterator[RunningNode]:
    config = folder / "leveret.toml"
    config.write_text(CONFIG.format(proxied=str(proxied).lower()))
    with running_node("--config", str(config), data_dir=folder / "data") as running:
        http = Http(running)
        http.put_user("canary", CANARY, tags="")
        http.permit("canary", "/", ".*", ".*", ".*")
        yield running
        assert running.process.poll() is None, f"the node ended during the tests: {running.log.read_text()[-4000:]}"
        code = running.stop()
        log = running.log.read_text()
    assert code == 0, f"the node's clean stop ended with {code}"
    assert CANARY not in log, f"the log holds a password: {[line for line in log.splitlines() if CANARY in line][:3]}"
    for sign in ("Traceback", "internal error", "a bug in"):
        assert sign not in log, f"the log tells of a bug: {log[max(0, log.index(sign) - 500) :][:3000]}"


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    yield from started(tmp_path_factory.mktemp("guarded"), proxied=False)


@pytest.fixture(scope="session")
def proxied_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    yield from started(tmp_path_factory.mktemp("proxied"), proxied=True)
