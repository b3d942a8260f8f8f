"""What a node shows of its configuration, and what it keeps to itself."""

from __future__ import annotations

import msgspec

from node.config import AmqpSection, ClusterSection, Config, LimitsSection, Oauth2Section
from node.effective_config import HIDDEN, effective_config


def shown(config: Config) -> dict[str, str]:
    return dict(line.split(" = ", 1) for line in effective_config(config).splitlines())


def test_every_key_is_shown_with_its_default_where_nothing_was_said() -> None:
    found = shown(Config())
    assert found["node.data_dir"] == '"var"'
    assert found["limits.connections"] == str(LimitsSection().connections)
    assert found["listen.amqp"] == '["127.0.0.1:5672","[::1]:5672"]'
    assert set(msgspec.to_builtins(Config())) - {"shovel"} == {key.partition(".")[0] for key in found} - {"shovel"}


def test_what_lets_somebody_in_is_hidden() -> None:
    shovel = {"name": "s", "src-uri": "amqp://u:let-me-in@a", "dest-uri": ["amqp://u:let-me-in@b"], "src-queue": "q"}
    config = Config(
        cluster=ClusterSection(secret="let-me-in", secret_file="path"),
        amqp=AmqpSection(anonymous_login_password="let-me-in"),
        shovel=(shovel,),
    )
    found = shown(config)
    hidden = [key for key, value in found.items() if value == HIDDEN]
    assert hidden == ["cluster.secret", "amqp.anonymous_login_password", "shovel.0.src-uri", "shovel.0.dest-uri"]
    assert found["cluster.secret_file"] == '"path"' and found["shovel.0.src-queue"] == '"q"'
    assert found["auth.password_hashing"] == '"argon2id"'
    assert "let-me-in" not in effective_config(config)


def test_uris_are_hidden_in_tables_within_and_whatever_stands_in_them() -> None:
    """RabbitMQ's names for the ends of a shovel; a query of a URI names files of keys."""
    shovel = {"source": {"uris": ["amqps://a?keyfile=/etc/key.pem"]}, "destination": {"uri": "amqps://b"}}
    found = shown(Config(shovel=(shovel,)))
    hidden = {key: value for key, value in found.items() if key.startswith("shovel.")}
    assert hidden == dict.fromkeys(("shovel.0.source.uris", "shovel.0.destination.uri"), HIDDEN)


def test_a_login_in_a_url_is_hidden_and_the_rest_is_shown() -> None:
    keys = Oauth2Section(jwks_url="https://me:let@me-in@issuer/keys?of=@all")
    assert shown(Config(oauth2=keys))["oauth2.jwks_url"] == f'"https://{HIDDEN}@issuer/keys?of=@all"'


def test_a_key_without_a_value_is_shown_as_empty() -> None:
    assert shown(Config())["cluster.secret"] == '""'
