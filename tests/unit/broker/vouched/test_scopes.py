"""What scopes allow, and that nothing else does."""

from hypothesis import given
from hypothesis import strategies as st

from broker.vouched.scopes import ACCESSES_OF_SCOPES, ScopeRights


def test_a_scope_allows_its_access_to_its_names_in_its_virtual_hosts() -> None:
    rights = ScopeRights(["read:prod/orders-*"])
    assert rights.may_enter("prod") and not rights.may_enter("test")
    assert rights.allows("prod", "read", "orders-1")
    assert not rights.allows("prod", "read", "invoices")
    assert not rights.allows("prod", "write", "orders-1")
    assert not rights.allows("test", "read", "orders-1")


def test_a_scope_without_a_routing_key_allows_none_at_topic_exchanges() -> None:
    plain, keyed = ScopeRights(["write:*/*"]), ScopeRights(["write:*/logs/eu.*"])
    assert plain.allows("/", "write", "logs") and not plain.allows_topic("/", "write", "logs", "eu.error")
    assert keyed.allows_topic("/", "write", "logs", "eu.error")
    assert not keyed.allows_topic("/", "write", "logs", "us.error")
    assert not keyed.allows_topic("/", "read", "logs", "eu.error")
    assert not keyed.allows_topic("/", "write", "other", "eu.error")


def test_tags_are_scopes_too_and_let_in_nowhere() -> None:
    rights = ScopeRights(["tag:monitoring", "tag:administrator"])
    assert rights.tags == ("administrator", "monitoring")
    assert not rights.may_enter("/")


def test_the_virtual_host_asked_about_may_stand_in_a_pattern_and_is_no_pattern() -> None:
    rights = ScopeRights(["read:{vhost}/{vhost}-*"])
    assert rights.allows("eu", "read", "eu-orders")
    assert not rights.allows("eu", "read", "us-orders")
    assert rights.allows("a*", "read", "a*-orders") and not rights.allows("a*", "read", "ab-orders")


def test_scopes_of_another_form_mean_nothing() -> None:
    odd = ["openid", "read:only-a-vhost", "read:a/b/c/d", "READ:*/*", "read :*/*", "delete:*/*", "read:%/*", ""]
    rights = ScopeRights(odd)
    assert rights.scopes == tuple(odd)
    assert not any(rights.may_enter(vhost) for vhost in ("/", "", "a", "only-a-vhost"))


PART = st.text(st.sampled_from("ab*%2F+{}vhost:/"), max_size=6)


@given(
    st.lists(st.text(st.sampled_from("readwriteconfigure:/*%{}vhost+ab"), max_size=20), max_size=6), PART, PART, PART
)
def test_no_scope_raises_and_who_may_do_something_may_enter(scopes: list[str], vhost: str, name: str, key: str) -> None:
    rights = ScopeRights(scopes)
    for access in ACCESSES_OF_SCOPES:
        may = rights.allows(vhost, access, name)
        assert rights.may_enter(vhost) or not may
        assert may or not rights.allows_topic(vhost, access, name, key)


@given(
    st.lists(st.sampled_from(["read:*/a", "write:x/*", "configure:*/*/k", "tag:management"]), max_size=4), PART, PART
)
def test_another_scope_takes_nothing_away(scopes: list[str], vhost: str, name: str) -> None:
    fewer, more = ScopeRights(scopes), ScopeRights([*scopes, "read:x/b"])
    for access in ACCESSES_OF_SCOPES:
        assert more.allows(vhost, access, name) or not fewer.allows(vhost, access, name)
