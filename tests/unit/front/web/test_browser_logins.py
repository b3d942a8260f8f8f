"""Browsers: logins that last, pages of other sites that are allowed to ask, and answers that are compressed."""

from __future__ import annotations

import asyncio
import gzip
import json
from dataclasses import replace
from typing import Any

import pytest

from broker.catalog.commands import catalog_commands as commands
from broker.login.client_address import ClientAddress
from broker.records import UserRecord
from front.web.api import BODY_BYTES_MAX
from front.web.http.compression import BYTES_MIN, INLINE_BYTES_MAX, compressed
from front.web.http.request import HttpError, Request, Response
from front.web.security.browser_logins import LOGINS_MAX, LOGINS_OF_USER_MAX, BrowserLogins
from front.web.security.cross_origin import CrossOrigin
from tests.unit.broker.vouched.bearers import bearer
from tests.unit.front.web.test_api import LOCAL, NOW, World, world

__all__ = ["world"]  # the fixture
ELSEWHERE = ClientAddress("192.0.2.7", 40_000, False, "HTTP")
OWN_PAGE = {"sec_fetch_site": "same-origin"}
ROOT = UserRecord("root", "hash", ("administrator",))


def log_in(world: World, user: str = "root", **headers: str) -> str:
    """The cookie."""
    response = world.request("POST", "/api/login", {"username": user, "password": "pw"}, user=None, **headers)
    assert response.status == 200
    return dict(response.headers)["Set-Cookie"].partition(";")[0]


def test_a_login_lasts_until_it_is_ended(world: World) -> None:
    cookie = log_in(world)
    assert json.loads(world.request("GET", "/api/whoami", user=None, cookie=f"a=b; {cookie}").body)["name"] == "root"
    ended = world.request("DELETE", "/api/login", user=None, cookie=cookie)
    assert (ended.status, "; Max-Age=0" in dict(ended.headers)["Set-Cookie"]) == (204, True)
    assert world.status("GET", "/api/whoami", cookie=cookie) == 401


def test_a_login_by_a_form_is_taken_too_and_says_who_it_is(world: World) -> None:
    form = {"content_type": "application/x-www-form-urlencoded"}
    response = world.request("POST", "/api/login", raw=b"username=root&password=pw", user=None, **form)
    about = {"name": "root", "tags": ["administrator"], "is_internal_user": True, "login_session_timeout": 480}
    assert json.loads(response.body) == {"token": {"type": "cookie"}, "user": about}
    header = dict(response.headers)["Set-Cookie"]
    assert header.endswith("; Path=/api; HttpOnly; SameSite=Strict; Max-Age=28800")
    token = header.partition("=")[2].partition(";")[0]
    assert len(token) == 43 and token.encode() not in response.body


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"username": "root", "password": "wrong"}, 401),
        ({"username": "app", "password": "pw"}, 401),  # has no tag that this API is for
        ({"username": "root"}, 400),
        ({"username": "root", "password": ["pw"]}, 400),
    ],
)
def test_who_may_not_use_the_api_gets_no_session(world: World, body: dict[str, Any], status: int) -> None:
    refused = world.refused("POST", "/api/login", body, user=None)
    assert refused.status == status and "Set-Cookie" not in dict(refused.headers)


def test_a_browser_is_not_asked_to_open_its_dialog_by_the_nodes_own_page(world: World) -> None:
    for headers, asks in (({}, True), ({"sec_fetch_dest": "empty"}, False), ({"x_requested_with": "page"}, False)):
        refused = world.refused("GET", "/api/whoami", user=None, **headers)
        assert ("WWW-Authenticate" in dict(refused.headers)) == asks


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (OWN_PAGE, 201),
        ({"origin": "http://broker:15672", "host": "broker:15672"}, 201),
        ({}, 403),  # by a cookie only browsers come, and those say whose page asks
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"origin": "http://evil.example", "host": "broker:15672"}, 403),
        ({"origin": "null", "host": "broker:15672"}, 403),
    ],
)
def test_by_a_cookie_only_the_nodes_own_pages_change_anything(
    world: World, headers: dict[str, str], status: int
) -> None:
    cookie = log_in(world)
    assert world.status("PUT", "/api/vhosts/new", {}, cookie=cookie, **headers) == status
    assert ("new" in world.broker.catalog.vhosts) == (status == 201)
    assert world.status("DELETE", "/api/vhosts/v", cookie=cookie, **headers) == (403 if status == 403 else 204)
    assert ("v" in world.broker.catalog.vhosts) == (status == 403)


def test_a_page_that_is_allowed_to_ask_changes_nothing_by_a_cookie_either(world: World) -> None:
    world.api._ports = replace(world.api._ports, cross_origin=CrossOrigin(("https://tools.example",)))
    cookie = log_in(world)
    headers = {"origin": "https://tools.example", "sec_fetch_site": "same-site", "host": "broker.example"}
    assert world.status("PUT", "/api/vhosts/new", {}, cookie=cookie, **headers) == 403


def test_the_page_may_send_as_much_as_an_operator_with_a_password(world: World) -> None:
    cookie = log_in(world).encode()

    def allowed(**headers: bytes) -> int:
        sent = {name.replace("_", "-").encode(): value for name, value in headers.items()}
        request = Request("POST", "/api/definitions", {**sent, b"content-length": b"1000000"}, b"", LOCAL, NOW)
        return asyncio.run(world.api.body_bytes_max(request))

    assert allowed(cookie=cookie, sec_fetch_site=b"same-origin") == BODY_BYTES_MAX
    for refused in ({"cookie": cookie}, {"cookie": cookie + b"x", "sec_fetch_site": b"same-origin"}):
        with pytest.raises(HttpError):
            allowed(**refused)


def test_a_password_in_the_request_goes_before_a_cookie(world: World) -> None:
    cookie = log_in(world)
    response = world.request("GET", "/api/whoami", user="user-monitoring", cookie=cookie)
    assert json.loads(response.body)["name"] == "user-monitoring"


def test_a_session_ends_with_its_users_password(world: World) -> None:
    cookie = log_in(world)
    tagged = UserRecord("root", "hash", ("monitoring",))
    world.broker.catalog.apply(commands.PutUser(tagged))
    assert json.loads(world.request("GET", "/api/whoami", user=None, cookie=cookie).body)["tags"] == ["monitoring"]
    world.broker.catalog.apply(commands.PutUser(replace(tagged, password_hash="another")))
    assert world.status("GET", "/api/whoami", cookie=cookie) == 401


def sessions() -> BrowserLogins:
    return BrowserLogins({"root": ROOT}.get, "n1", minutes=10)


def test_a_session_is_good_for_its_time_and_from_its_source_only() -> None:
    found = sessions()
    token = found.begin(ROOT, ELSEWHERE, 0)
    assert found.user_of(token, replace(ELSEWHERE, port=1), 599_999) == ROOT
    assert found.user_of(token, replace(ELSEWHERE, host="192.0.2.8"), 1) is None
    assert found.user_of(token, LOCAL, 1) is None
    assert found.user_of(token + "x", ELSEWHERE, 1) is None
    assert found.user_of(token, ELSEWHERE, 600_000) is None and len(found) == 0


def test_what_is_kept_of_a_session_logs_nobody_in() -> None:
    found = sessions()
    token = found.begin(ROOT, LOCAL, 0)
    (kept,) = found._logins
    assert token.encode() != kept and found.user_of(kept.decode("latin-1"), LOCAL, 1) is None


def test_a_browser_on_this_machine_reaches_it_by_either_address() -> None:
    found = sessions()
    token = found.begin(ROOT, LOCAL, 0)
    assert found.user_of(token, ClientAddress("::1", 1, True, "HTTP"), 1) == ROOT


def test_a_session_ends_when_its_user_is_deleted() -> None:
    users = {"root": ROOT}
    found = BrowserLogins(users.get, "n1", minutes=10)
    token = found.begin(ROOT, LOCAL, 0)
    users.clear()
    assert found.user_of(token, LOCAL, 1) is None


def test_sessions_are_bounded() -> None:
    found = sessions()
    first = found.begin(ROOT, LOCAL, 0)
    for _ in range(LOGINS_OF_USER_MAX):
        found.begin(ROOT, LOCAL, 0)
    assert len(found) == LOGINS_OF_USER_MAX and found.user_of(first, LOCAL, 1) is None
    latest = found.begin(ROOT, LOCAL, 0)
    for number in range(LOGINS_MAX - 1):
        found.begin(UserRecord(str(number), "hash"), LOCAL, 0)
    assert len(found) == LOGINS_MAX and found.user_of(latest, LOCAL, 1) == ROOT, "older ones have given way"
    found.begin(UserRecord("one more", "hash"), LOCAL, 0)
    assert len(found) == LOGINS_MAX and found.user_of(latest, LOCAL, 1) is None
    found.begin(ROOT, LOCAL, 600_000)
    assert len(found) == 1, "the others are over"


def test_the_cookie_of_another_node_on_this_host_is_another_one() -> None:
    one, other = sessions(), BrowserLogins({}.get, "n2", minutes=10)
    request = Request("GET", "/", {}, b"", LOCAL, NOW)
    name, value = one.header(request, "t", 5)
    request.headers[b"cookie"] = value.partition(";")[0].encode()
    assert (name, one.token_of(request), other.token_of(request)) == ("Set-Cookie", "t", None)
    request.tls = True
    assert one.header(request, "t", 5)[1].endswith("; Secure")


# Pages of other sites.


def cors(world: World, *origins: str) -> None:
    world.api._ports = replace(world.api._ports, cross_origin=CrossOrigin(origins))


def test_no_page_of_another_site_sees_anything_by_default(world: World) -> None:
    response = world.request("GET", "/api/whoami", origin="https://tools.example")
    assert not any(name.startswith("Access-Control") for name, _ in response.headers)
    assert ("Vary", "Accept-Encoding, Origin") in response.headers


def test_an_origin_that_is_named_asks_with_a_login(world: World) -> None:
    cors(world, "https://tools.example")
    headers = dict(world.request("GET", "/api/whoami", origin="https://tools.example").headers)
    assert headers["Access-Control-Allow-Origin"] == "https://tools.example"
    assert headers["Access-Control-Allow-Credentials"] == "true"
    assert (
        world.request("PUT", "/api/vhosts/n", {}, origin="https://tools.example", sec_fetch_site="cross-site").status
        == 201
    )
    for origin in ("https://tools.example.evil", "https://tools", "http://tools.example", "null", ""):
        other = world.refused("PUT", "/api/vhosts/m", {}, origin=origin, sec_fetch_site="cross-site")
        assert other.status == 403 and "Access-Control-Allow-Origin" not in dict(other.headers), origin


def test_what_a_browser_asks_beforehand_comes_back_as_ascii(world: World) -> None:
    """No header of an answer can be anything else: the connection was cut."""
    cors(world, "*")
    wanted = {"origin": "https://any", "access_control_request_headers": "x-\u00e9, authorization"}
    headers = dict(world.request("OPTIONS", "/api/vhosts/v", user=None, **wanted).headers)
    assert headers["Access-Control-Allow-Headers"] == "x-, authorization"


def test_a_browser_asks_before_it_asks(world: World) -> None:
    cors(world, "https://tools.example")
    wanted = {"access_control_request_headers": "authorization,x-vhost", "access_control_request_method": "PUT"}
    response = world.request("OPTIONS", "/api/vhosts/v", user=None, origin="https://tools.example", **wanted)
    headers = dict(response.headers)
    assert response.status == 200 and "PUT" in headers["Access-Control-Allow-Methods"]
    assert headers["Access-Control-Allow-Headers"] == "authorization,x-vhost"
    assert headers["Access-Control-Max-Age"] == "1800"
    asked = world.request("GET", "/api/vhosts", origin="https://tools.example", **wanted)
    assert [name for name, _ in asked.headers if name.startswith("Access-Control")] == [
        "Access-Control-Allow-Origin",
        "Access-Control-Allow-Credentials",
    ]


def test_any_origin_sees_answers_and_sends_json_and_never_a_login_that_its_browser_keeps(world: World) -> None:
    cors(world, "*")
    asked = {"origin": "https://anyone.example", "sec_fetch_site": "cross-site"}
    headers = dict(world.request("PUT", "/api/vhosts/n", {}, **asked).headers)
    assert headers["Access-Control-Allow-Origin"] == "*" and "Access-Control-Allow-Credentials" not in headers
    assert world.refused("PUT", "/api/vhosts/m", {}, content_type="text/plain", **asked).status == 415
    program = world.request("PUT", "/api/vhosts/m", {}, content_type="text/plain")
    assert program.status == 201 and "Access-Control-Allow-Origin" not in dict(program.headers)


def test_what_is_refused_is_seen_by_a_page_that_may_ask(world: World) -> None:
    cors(world, "https://tools.example")
    refused = world.refused("GET", "/api/nothing", origin="https://tools.example")
    assert dict(refused.headers)["Access-Control-Allow-Origin"] == "https://tools.example"


# Size.


@pytest.mark.parametrize("length", [BYTES_MIN, INLINE_BYTES_MAX + 1])
def test_a_large_answer_is_compressed_for_who_can_read_it(world: World, length: int) -> None:
    world.broker.catalog.apply(commands.PutVhost(commands.VhostRecord("big", description="d" * length)))
    plain = world.request("GET", "/api/vhosts")
    for accepted, is_read in (
        ("gzip, br", True),
        ("*", True),
        ("br", False),
        ("gzip; q=0", False),
        ("br, GZIP;q=0.000", False),
        ("gzip;q=0.5", True),
    ):
        response = world.request("GET", "/api/vhosts", accept_encoding=accepted)
        assert (("Content-Encoding", "gzip") in response.headers) == is_read
        body = b"".join(response.pieces) or response.body
        assert (gzip.decompress(body) if is_read else body) == plain.body
        assert len(body) < length or not is_read


@pytest.mark.parametrize("count", [40, 4_000])
def test_an_answer_in_pieces_is_compressed_as_one(count: int) -> None:
    pieces = [f"some figure {number}\n".encode() for number in range(count)]
    asked = Request("GET", "/metrics/per-object", {b"accept-encoding": b"gzip"}, b"", LOCAL, NOW)
    response = asyncio.run(compressed(asked, Response(200, content_type="text/plain", pieces=pieces * 2)))
    body = b"".join(response.pieces) or response.body
    assert gzip.decompress(body) == b"".join(pieces * 2)
    assert len(body) < sum(map(len, pieces))


def test_a_small_answer_is_not_compressed(world: World) -> None:
    assert ("Content-Encoding", "gzip") not in world.request("GET", "/api/whoami", accept_encoding="gzip").headers


# One vhost of a list.


@pytest.mark.parametrize("path", ["queues", "exchanges", "bindings", "policies", "operator-policies", "vhost-limits"])
def test_a_header_cuts_a_list_to_one_vhost(world: World, path: str) -> None:
    assert world.request("GET", f"/api/{path}", x_vhost="v").body == world.request("GET", f"/api/{path}/v").body
    assert world.refused("GET", f"/api/{path}", x_vhost="nope").status == 404


def test_a_header_changes_no_path_that_names_a_vhost_itself(world: World) -> None:
    """RabbitMQ's page sends it with everything, and was told that there is no queue `v`."""
    for path in ("queues", "exchanges", "policies", "operator-policies"):
        plain = world.request("GET", f"/api/{path}/v")
        for vhost in ("v", "orders", "shop"):
            assert world.request("GET", f"/api/{path}/v", x_vhost=vhost).body == plain.body, (path, vhost)


def test_a_header_changes_what_is_looked_at_only(world: World) -> None:
    assert world.refused("DELETE", "/api/queues", x_vhost="v").status == 405
    assert dict(world.request("OPTIONS", "/api/queues", user=None, x_vhost="v").headers)["Allow"] == "GET, OPTIONS"


def test_a_header_names_no_other_thing_than_a_vhost(world: World) -> None:
    assert len(world.get("/api/vhosts")) == len(json.loads(world.request("GET", "/api/vhosts", x_vhost="v").body)) == 2
    assert world.request("GET", "/api/definitions", x_vhost="v").body == world.request("GET", "/api/definitions").body
    with pytest.raises(HttpError) as refused:
        world.request("GET", "/api/queues", user="user-", x_vhost="v")
    assert refused.value.status == 401


def test_a_login_that_began_with_a_token_ends_with_it_whoever_else_has_the_name() -> None:
    ann = bearer("ann", "tag:management", until_ms=NOW + 60_000)
    logins = BrowserLogins(lambda name: None, "leveret@test", 480)
    token = logins.begin(ann, LOCAL, NOW)
    assert logins.user_of(token, LOCAL, NOW + 59_999) is ann
    assert logins.user_of(token, LOCAL, NOW + 60_000) is None
    assert len(logins) == 0
