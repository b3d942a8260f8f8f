"""What the configuration says about tokens, as their room takes it. Files of keys are read here, once."""

from __future__ import annotations

import ssl
from pathlib import Path

from broker.vouched.claims import TokenTerms
from links.sockets import VERIFY_FLAGS
from node.config import ConfigError, Oauth2Section
from node.tokens.begin import TokenSettings
from node.tokens.jwks_source import BadUrl, JwksSource
from node.tokens.token_check import TokenRules
from node.tokens.verification_keys import ALGORITHMS, BadKey, VerificationKey, key_of_file

LEEWAY_S_MAX = 300


def token_settings(section: Oauth2Section) -> TokenSettings:
    """Raises ConfigError."""
    return TokenSettings(_rules(section), _keys(section), _source(section))


def _rules(section: Oauth2Section) -> TokenRules:
    unknown = [name for name in section.algorithms if name not in ALGORITHMS]
    if unknown:
        raise ConfigError(f"oauth2.algorithms has {unknown[0]!r}: give some of {', '.join(ALGORITHMS)}")
    if not 0 <= section.leeway_s <= LEEWAY_S_MAX:
        raise ConfigError(f"oauth2.leeway_s is {section.leeway_s}: give 0 to {LEEWAY_S_MAX}")
    if not section.preferred_username_claims:
        raise ConfigError("oauth2.preferred_username_claims is empty: name a claim, such as sub")
    terms = TokenTerms(
        resource_server_id=section.resource_server_id,
        scope_prefix=section.scope_prefix.replace("{resource_server_id}", section.resource_server_id),
        verify_aud=section.verify_aud,
        issuer=section.issuer,
        require_exp=section.require_exp,
        leeway_s=section.leeway_s,
        additional_scopes=tuple(section.additional_scopes_key.split()),
        scope_aliases={alias: tuple(scopes.split()) for alias, scopes in section.scope_aliases.items()},
        username_claims=section.preferred_username_claims,
    )
    return TokenRules(terms, frozenset(section.algorithms or ALGORITHMS), section.default_key)


def _keys(section: Oauth2Section) -> dict[str, VerificationKey]:
    return {kid: _key(kid, path) for kid, path in section.keys.items()}


def _key(kid: str, path: str) -> VerificationKey:
    try:
        return key_of_file(Path(path).read_bytes())
    except OSError as error:
        raise ConfigError(f"oauth2.keys.{kid}: {path} cannot be read: {error.strerror}") from error
    except BadKey as error:
        raise ConfigError(f"oauth2.keys.{kid}: {path} cannot be used: {error}") from error


def _source(section: Oauth2Section) -> JwksSource | None:
    if not section.jwks_url:
        return None
    try:
        tls = ssl.create_default_context(cafile=section.jwks_ca or None)
        tls.verify_flags = VERIFY_FLAGS
        return JwksSource(section.jwks_url, tls)
    except OSError as error:  # also what ssl says of a file that holds no certificate
        raise ConfigError(f"oauth2.jwks_ca: {section.jwks_ca} cannot be used: {error.strerror or error}") from error
    except BadUrl as error:
        raise ConfigError(f"oauth2.jwks_url is {section.jwks_url!r}: {error}") from error
