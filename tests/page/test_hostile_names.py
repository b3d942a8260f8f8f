"""Names are shown as text, everywhere: no script runs, the policy has nothing to refuse, and there is no foreign request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pika
import pytest

from tests.page.hostile_node import NAMES, api_of, parts
from tests.page.views import LISTS, details_of
from tests.running_node import RunningNode

if TYPE_CHECKING:
    from tests.page.browser import PageBrowser

pytestmark = pytest.mark.page
COMPARED = 90  # characters: exchanges of delayed messages have shorter names than others may
SHOWN_IN = ("queues", "exchanges", "connections", "users", "permissions", "vhosts", "policies", "limits", "parameters")


@pytest.mark.parametrize("view", LISTS)
def test_each_list_opens_without_a_fault(browser: PageBrowser, view: str) -> None:
    browser.open(f"/{view}")
    assert browser.faults() == []


@pytest.mark.parametrize("name", NAMES)
def test_what_one_thing_shows_opens_without_a_fault(browser: PageBrowser, name: str) -> None:
    for view in details_of(name):
        browser.open(f"/{view}")
        assert as_shown(name)[:COMPARED] in as_shown(browser.text("h1")), view
        assert browser.faults() == [], view


@pytest.mark.parametrize("view", SHOWN_IN)
def test_names_are_shown_as_they_are(browser: PageBrowser, view: str) -> None:
    browser.open(f"/{view}")
    said = as_shown(browser.driver.execute_script("return document.querySelector('main').textContent"))
    assert [name for name in NAMES if as_shown(name) not in said] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_message_is_shown_as_text_whatever_is_in_it(browser: PageBrowser, name: str) -> None:
    browser.open(f"/{details_of(name)[1]}")
    browser.find(".messages summary").click()
    assert as_shown(name) in as_shown(browser.text(".messages .message pre"))
    assert browser.faults() == []


def test_connections_and_channels_lead_to_what_they_are(browser: PageBrowser, hostile: RunningNode) -> None:
    api = api_of(hostile)
    for kind in ("connections", "channels"):
        for one in api.call("GET", kind):
            browser.open(f"/{kind}/{one['name'].replace(' ', '%20').replace('>', '%3E')}")
            assert browser.find("main dl"), one["name"]
    assert browser.faults() == []


def test_a_name_that_no_browser_can_ask_for_is_listed_and_said(browser: PageBrowser, hostile: RunningNode) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters(*hostile.amqp))
    connection.channel().queue_declare("..")
    connection.close()
    browser.open("/queues?name=..")
    assert [one.text for one in browser.all("main tbody th .name")] == [".."]
    browser.open(f"/queues/{parts('/', '..')}")
    assert "use leveretctl" in browser.text("main")
    assert browser.faults() == []


def as_shown(text: str) -> str:
    """Browsers take several spaces for one."""
    return " ".join(text.split())
