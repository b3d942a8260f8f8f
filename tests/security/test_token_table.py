"""The table of tokens and what they allow, which was compared with RabbitMQ's: a node of ours does what it says."""

from __future__ import annotations

from pathlib import Path

from tests.compat.token_table import Broker, differing
from tests.running_node import running_node
from tests.token_issuer import RESOURCE_SERVER, TokenIssuer

CONFIG = """
[oauth2]
resource_server_id = "{resource}"
keys = {{ ec-1 = "{key}" }}
scope_aliases = {{ developer = "{resource}.tag:management {resource}.read:*/*" }}
additional_scopes_key = "realm_access.roles"
"""


def test_tokens_let_in_and_allow_what_the_table_says(tmp_path: Path) -> None:
    issuer = TokenIssuer()
    key, config = tmp_path / "key.pem", tmp_path / "leveret.toml"
    key.write_bytes(issuer.elliptic.pem)
    config.write_text(CONFIG.format(resource=RESOURCE_SERVER, key=key))
    with running_node("--config", str(config), data_dir=tmp_path / "data") as node:
        count, wrong = differing(issuer, Broker(node.amqp, node.http))
    assert count > 100
    assert wrong == []
