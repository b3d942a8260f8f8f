"""The management API within TLS: a login by cookie, what the certificate's check says, and a certificate that is replaced."""

from __future__ import annotations

import http.client
import json
import signal
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.running_node import RunningNode, running_node

CONFIG = """
[listen]
https = ["127.0.0.1:0"]
[tls]
certificate = "{folder}/node.pem"
key = "{folder}/node.key"
"""
LOGIN = "Basic Z3Vlc3Q6Z3Vlc3Q="


class Site:
    """A node with a certificate that can be replaced."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = trustme.CA()
        self.certify(timedelta(days=20))
        (folder / "leveret.toml").write_text(CONFIG.format(folder=folder))

    def certify(self, valid_for: timedelta) -> None:
        issued = self.authority.issue_cert("127.0.0.1", not_after=datetime.now(UTC) + valid_for)
        issued.private_key_pem.write_to_path(self.folder / "node.key")
        issued.cert_chain_pems[0].write_to_path(self.folder / "node.pem")

    def connect(self, node: RunningNode) -> http.client.HTTPSConnection:
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return http.client.HTTPSConnection(*node.addresses["https"], timeout=30, context=context)


def ask(connection: http.client.HTTPConnection, path: str) -> tuple[int, Any]:
    connection.request("GET", f"/api/{path}", headers={"Authorization": LOGIN})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def node(site: Site) -> Iterator[RunningNode]:
    with running_node("--config", str(site.folder / "leveret.toml")) as node:
        yield node


def test_a_cookie_is_secure_within_tls(site: Site, node: RunningNode) -> None:
    connection = site.connect(node)
    connection.request("POST", "/api/login", json.dumps({"username": "guest", "password": "guest"}))
    answer = connection.getresponse()
    cookie = answer.headers["Set-Cookie"]
    assert (answer.status, cookie.endswith("; Secure")) == (200, True)
    assert answer.headers["X-Frame-Options"] == "DENY" and json.loads(answer.read())["user"]["name"] == "guest"
    connection.request("GET", "/api/whoami", headers={"Cookie": cookie.partition(";")[0]})
    assert connection.getresponse().status == 200
    connection.close()


def test_a_certificate_that_ends_soon_fails_its_check_and_is_replaced_without_a_restart(
    site: Site, node: RunningNode
) -> None:
    old = site.connect(node)
    assert ask(old, "health/checks/certificate-expiration/2/weeks") == (200, {"status": "ok"})
    status, failed = ask(old, "health/checks/certificate-expiration/1/months")
    assert (status, failed["status"], failed["reason"]) == (503, "failed", "Certificates expiring")
    assert [(one["protocol"], one["certfile"]) for one in failed["expired"]] == [("https", f"{site.folder}/node.pem")]
    for wrong in ("0/days", "x/days", "1/hours", "99999/days"):
        assert ask(old, f"health/checks/certificate-expiration/{wrong}")[0] == 400
    assert ask(old, "health/checks/protocol-listener/https")[0] == 200
    site.certify(timedelta(days=300))
    node.process.send_signal(signal.SIGHUP)
    assert ask(old, "health/checks/certificate-expiration/1/months")[0] == 200, "it goes on with the one it has"
    new = site.connect(node)
    assert ask(new, "whoami")[0] == 200
    shown = new.sock.getpeercert()
    until = datetime.strptime(shown["notAfter"], "%b %d %H:%M:%S %Y GMT").replace(tzinfo=UTC)
    assert until - datetime.now(UTC) > timedelta(days=200)
    for connection in (old, new):
        connection.close()
