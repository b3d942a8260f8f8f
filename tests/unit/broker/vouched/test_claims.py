"""From the claims of a token to a user: who it is, until when, and which scopes count."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.vouched.claims import TokenRefused, TokenTerms, user_of

NOW_S = 1_700_000_000
TERMS = TokenTerms("broker", "broker.")
CLAIMS: dict[str, Any] = {"sub": "alice", "aud": ["broker"], "exp": NOW_S + 60, "scope": "broker.read:*/*"}


def user(terms: TokenTerms = TERMS, now_s: float = NOW_S, **claims: Any) -> Any:
    given_claims = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    return user_of(given_claims, terms, round(now_s * 1000))


def scopes(terms: TokenTerms = TERMS, **claims: Any) -> list[str]:
    return sorted(user(terms, **claims).rights.scopes)


def test_a_token_says_who_its_bearer_is_what_they_may_do_and_until_when() -> None:
    alice = user(scope="broker.read:*/* broker.tag:management")
    assert (alice.name, alice.tags, alice.password_hash) == ("alice", ("management",), None)
    assert alice.until_ms == (NOW_S + 60) * 1000
    assert alice.vouched.allows("/", "read", "q")


@pytest.mark.parametrize("aud", ["broker", "other broker", ["other", "broker"]])
def test_the_audience_names_this_resource_server_among_others(aud: Any) -> None:
    assert user(aud=aud).name == "alice"


@pytest.mark.parametrize("aud", [None, "", "brokers", "broker2 other", [], ["other"], {"broker": 1}, 7, [["broker"]]])
def test_a_token_for_somebody_else_is_refused_unless_the_operator_does_not_mind(aud: Any) -> None:
    with pytest.raises(TokenRefused, match="audience"):
        user(aud=aud)
    assert user(replace(TERMS, verify_aud=False), aud=aud).name == "alice"


@pytest.mark.parametrize("late_s", [60, 61, 1e9])
def test_a_token_has_expired_in_the_second_that_it_names(late_s: float) -> None:
    with pytest.raises(TokenRefused, match="expired"):
        user(now_s=NOW_S + late_s)
    assert user(now_s=NOW_S + 59.999).name == "alice"


def test_clocks_may_differ_by_the_leeway_at_both_ends() -> None:
    terms = replace(TERMS, leeway_s=5)
    assert user(terms, now_s=NOW_S + 64, nbf=NOW_S).until_ms == (NOW_S + 65) * 1000
    assert user(terms, nbf=NOW_S + 5).name == "alice"
    with pytest.raises(TokenRefused, match="not valid yet"):
        user(terms, nbf=NOW_S + 6)
    with pytest.raises(TokenRefused, match="expired"):
        user(terms, now_s=NOW_S + 65)


@pytest.mark.parametrize("exp", ["1700000060", True, [], {}, float("inf"), float("nan")])
def test_a_time_that_is_no_number_is_refused(exp: Any) -> None:
    with pytest.raises(TokenRefused, match="exp claim is not a number"):
        user(exp=exp)


def test_a_token_without_an_end_is_refused_unless_the_operator_does_not_mind() -> None:
    with pytest.raises(TokenRefused, match="no exp"):
        user(exp=None)
    assert user(replace(TERMS, require_exp=False), exp=None).until_ms is None


def test_the_issuer_is_compared_when_one_is_named() -> None:
    terms = replace(TERMS, issuer="https://idp")
    assert user(terms, iss="https://idp").name == "alice"
    for iss in (None, "https://idp/", ["https://idp"]):
        with pytest.raises(TokenRefused, match="issuer"):
            user(terms, iss=iss)


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"client_id": "app"}, "alice"),
        ({"client_id": "app", "sub": None}, "app"),
        ({"client_id": "app", "sub": 7}, "app"),
        ({"client_id": "app", "sub": ""}, "app"),
        ({"sub": None}, "unknown"),
    ],
)
def test_the_first_preferred_claim_that_is_a_text_names_the_user(claims: dict[str, Any], name: str) -> None:
    assert user(**claims).name == name


@pytest.mark.parametrize("name", ["a" * 256, "é" * 128, "a\nb", "a\x00b", "\ud800"])
def test_a_name_that_no_log_could_show_is_refused(name: str) -> None:
    with pytest.raises(TokenRefused, match="user name"):
        user(sub=name)


def test_scopes_with_the_prefix_count_without_it() -> None:
    assert scopes(scope="broker.read:a/b other.write:a/b openid broker.tag:x broker.") == ["", "read:a/b", "tag:x"]
    assert scopes(replace(TERMS, scope_prefix=""), scope=["read:a/b", 7, None]) == ["read:a/b"]
    assert scopes(replace(TERMS, scope_prefix="mq_"), scope="mq_read:a/b broker.read:a/b") == ["read:a/b"]


def test_scopes_come_from_further_places_that_the_operator_names() -> None:
    terms = replace(TERMS, additional_scopes=("roles", "realm_access.roles", "broker"))
    found = scopes(
        terms,
        scope="broker.read:a/1",
        roles=["broker.read:a/2", 3],
        realm_access={"roles": "broker.read:a/3 broker.read:a/4"},
        broker={"broker": ["read:a/5"], "other": ["read:a/6"]},
    )
    assert found == [f"read:a/{number}" for number in range(1, 6)]


def test_scopes_come_from_keycloaks_permissions() -> None:
    permissions = [{"scopes": ["broker.read:a/1"]}, {"rsid": "x"}, 7, {"scopes": "broker.read:a/2"}]
    assert scopes(scope=None, authorization={"permissions": permissions}) == ["read:a/1", "read:a/2"]


def test_an_alias_stands_for_scopes_of_ours() -> None:
    terms = replace(TERMS, scope_aliases={"developer": ("broker.tag:management", "broker.read:*/*"), "x": ("ours",)})
    assert scopes(terms, scope="developer x") == ["read:*/*", "tag:management"]


def test_a_claim_may_stand_in_a_scope_and_is_no_pattern() -> None:
    bearer = user(scope="broker.read:*/{sub}-* broker.write:*/{nothing}", sub="a*/b")
    assert bearer.rights.allows("/", "read", "a*/b-queue")
    assert not bearer.rights.allows("/", "read", "axb-queue")
    assert bearer.rights.allows("/", "write", "{nothing}")


def test_more_scopes_than_anybody_needs_are_refused() -> None:
    with pytest.raises(TokenRefused, match="2049 scopes"):
        user(scope=[f"broker.read:*/{number}" for number in range(2049)])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("broker"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["permissions", "scopes", "broker", "roles"]), inner, max_size=3)
    ),
    max_leaves=12,
)
CLAIM_NAMES = ["sub", "aud", "exp", "nbf", "iss", "scope", "authorization", "roles", "client_id"]


@given(st.dictionaries(st.sampled_from(CLAIM_NAMES), JSON))
def test_whatever_the_claims_are_there_is_a_user_or_a_refusal(claims: dict[str, Any]) -> None:
    terms = replace(TERMS, verify_aud=False, require_exp=False, additional_scopes=("roles", "roles.roles.roles"))
    try:
        found = user_of(claims, terms, NOW_S * 1000)
    except TokenRefused:
        return
    assert found.name and found.name.isprintable()
    assert found.until_ms is None or found.until_ms > NOW_S * 1000
    assert all(isinstance(scope, str) for scope in found.rights.scopes)
