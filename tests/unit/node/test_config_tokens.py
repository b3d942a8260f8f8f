"""What the configuration may say about tokens, and that what cannot work is refused with the key that says it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from node.config import Config, ConfigError, Oauth2Section, check
from node.config_tokens import token_settings
from node.tokens.verification_keys import ALGORITHMS
from tests.token_issuer import TokenIssuer

ISSUER = TokenIssuer()


def section(tmp_path: Path, **more: Any) -> Oauth2Section:
    key = tmp_path / "key.pem"
    key.write_bytes(ISSUER.elliptic.pem)
    return Oauth2Section(**{"resource_server_id": "broker", "keys": {"ec-1": str(key)}, **more})


def test_what_is_not_given_is_what_rabbitmq_has(tmp_path: Path) -> None:
    settings = token_settings(section(tmp_path))
    terms = settings.rules.terms
    assert (terms.scope_prefix, terms.verify_aud, terms.require_exp) == ("broker.", True, True)
    assert terms.username_claims == ("sub", "client_id")
    assert settings.rules.algorithms == set(ALGORITHMS)
    assert settings.source is None and set(settings.keys) == {"ec-1"}


def test_scopes_are_told_apart_by_spaces(tmp_path: Path) -> None:
    given = section(
        tmp_path,
        scope_prefix="",
        scope_aliases={"developer": "tag:management  read:*/*"},
        additional_scopes_key="roles realm_access.roles",
        algorithms=("RS256",),
    )
    rules = token_settings(given).rules
    assert rules.terms.scope_prefix == ""
    assert rules.terms.scope_aliases == {"developer": ("tag:management", "read:*/*")}
    assert rules.terms.additional_scopes == ("roles", "realm_access.roles")
    assert rules.algorithms == {"RS256"}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"algorithms": ("none",)}, "oauth2.algorithms has 'none'"),
        ({"leeway_s": -1}, "oauth2.leeway_s is -1"),
        ({"leeway_s": 3_600}, "oauth2.leeway_s is 3600"),
        ({"preferred_username_claims": ()}, "oauth2.preferred_username_claims is empty"),
        ({"jwks_url": "http://idp.example.com/keys"}, "oauth2.jwks_url is 'http://idp.example.com/keys'"),
        ({"jwks_url": "https://idp/", "jwks_ca": "/nowhere.pem"}, "oauth2.jwks_ca: /nowhere.pem"),
        ({"keys": {"k": "/nowhere.pem"}}, "oauth2.keys.k: /nowhere.pem cannot be read"),
        ({"keys": {"k": __file__}}, "cannot be used: it is no PEM public key"),
    ],
)
def test_what_cannot_work_is_refused_with_its_key_and_value(more: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        token_settings(section(tmp_path, **more))
    assert said in str(refused.value)


def test_a_resource_server_needs_keys_and_keys_a_resource_server() -> None:
    check(Config(oauth2=Oauth2Section(resource_server_id="broker", jwks_url="https://idp/")))
    with pytest.raises(ConfigError, match=r"give oauth2\.jwks_url or oauth2\.keys too"):
        check(Config(oauth2=Oauth2Section(resource_server_id="broker")))
    with pytest.raises(ConfigError, match=r"give oauth2\.resource_server_id too"):
        check(Config(oauth2=Oauth2Section(jwks_url="https://idp/")))
