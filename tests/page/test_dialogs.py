"""What changes something: each way through the page to do it, what it asks before, and what it says when the node refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.page.hostile_node import api_of, parts
from tests.running_node import RunningNode

if TYPE_CHECKING:
    from tests.page.browser import PageBrowser

pytestmark = pytest.mark.page


def fill(browser: PageBrowser, **fields: str) -> None:
    for name, value in fields.items():
        control = browser.find(f"dialog [name='{name}']")
        if control.tag_name == "select":
            control.find_element("css selector", f"option[value='{value}']").click()
        else:
            control.clear()
            control.send_keys(value)


def send(browser: PageBrowser, label: str) -> None:
    browser.button(label, "dialog").click()


def closed(browser: PageBrowser) -> None:
    browser.until("the dialog stayed open", lambda: not browser.all("dialog"))


def test_a_queue_is_declared_published_to_looked_at_purged_and_deleted(
    browser: PageBrowser, hostile: RunningNode
) -> None:
    api, name = api_of(hostile), "through the page"
    browser.open("/queues")
    browser.button("Declare").click()
    fill(browser, type="quorum", vhost="/", name=name)
    fill(browser, **{"quorum x-max-length": "1000"})
    send(browser, "Declare")
    closed(browser)
    assert api.call("GET", f"queues/{parts('/', name)}")["arguments"]["x-max-length"] == 1000

    browser.open(f"/queues/{parts('/', name)}")
    browser.button("Publish").click()
    fill(browser, payload='{"a": [1, 2]}', headers="tries = 2")
    send(browser, "Publish")
    browser.until("nothing was published", lambda: browser.text("dialog .done") == "Published and confirmed.")
    browser.button("Close", "dialog").click()

    browser.open(f"/queues/{parts('/', name)}?tab=messages")
    browser.find(".messages summary").click()
    assert '"a": [\n    1,' in browser.text(".message pre")
    assert api.call("GET", f"queues/{parts('/', name)}")["messages"] == 1, "looking takes nothing"

    browser.button("Get").click()
    send(browser, "Get")
    closed(browser)
    browser.until("it was not got", lambda: "fetched with Get" in browser.text())
    browser.button("Purge").click()
    send(browser, "Purge")
    closed(browser)
    assert api.call("GET", f"queues/{parts('/', name)}")["messages"] == 0
    browser.open(f"/queues/{parts('/', name)}")
    browser.button("Delete").click()
    send(browser, "Delete")
    closed(browser)
    assert name not in [one["name"] for one in api.call("GET", "queues")]
    assert browser.faults() == []


def test_a_queue_with_messages_wants_its_name_typed(browser: PageBrowser, hostile: RunningNode) -> None:
    api, name = api_of(hostile), "full"
    api.put(f"queues/{parts('/', name)}", durable=True)
    for _ in range(3):
        body = {"routing_key": name, "properties": {}, "payload": "x", "payload_encoding": "string"}
        api.call("POST", f"exchanges/{parts('/', 'amq.default')}/publish", body)
    browser.open(f"/queues/{parts('/', name)}")
    browser.until("its messages are not there yet", lambda: "Messages\n3" in browser.text(".tabs"))
    browser.button("Delete").click()
    assert "3 messages will be deleted." in browser.text("dialog")
    fill(browser, typed="another")
    send(browser, "Delete")
    assert "does not match" in browser.until("nothing was said", lambda: browser.text("dialog .error"))
    assert api.call("GET", f"queues/{parts('/', name)}")["messages"] == 3
    fill(browser, typed=name)
    send(browser, "Delete")
    closed(browser)
    assert name not in [one["name"] for one in api.call("GET", "queues")]


def test_a_refusal_is_said_with_the_nodes_reason_and_what_was_typed_stays(
    browser: PageBrowser, hostile: RunningNode
) -> None:
    api_of(hostile).put(f"queues/{parts('/', 'taken')}", durable=True)
    browser.open("/queues")
    browser.button("Declare").click()
    fill(browser, type="stream", vhost="/", name="taken")
    send(browser, "Declare")
    said = browser.until("no reason was given", lambda: browser.text("dialog .error"))
    assert "taken" in said
    assert browser.find("dialog [name=name]").get_property("value") == "taken"
    browser.button("Cancel").click()
    browser.faults()  # browsers note each refusal in the console


def test_bindings_policies_users_vhosts_limits_and_parameters_are_made(
    browser: PageBrowser, hostile: RunningNode
) -> None:
    api = api_of(hostile)
    browser.open(f"/exchanges/{parts('/', 'amq.topic')}")
    browser.button("Add binding").click()
    fill(browser, destination=QUEUE, key="a.#")
    api.put(f"queues/{parts('/', QUEUE)}", durable=True)
    send(browser, "Bind")
    closed(browser)
    assert [one["routing_key"] for one in api.call("GET", f"bindings/{parts('/', 'e', 'amq.topic', 'q', QUEUE)}")] == [
        "a.#"
    ]

    browser.open("/policies")
    browser.button("Add").click()
    fill(browser, vhost="/", name="made", pattern="^made", definition="max-length = 5")
    browser.button("Preview matching queues").click()
    browser.until("no match was shown", lambda: QUEUE in browser.text("dialog"))
    send(browser, "Add")
    closed(browser)
    assert api.call("GET", f"policies/{parts('/', 'made')}")["definition"] == {"max-length": 5}

    browser.open("/users")
    browser.button("Add user").click()
    fill(browser, name="made", password="secret", again="secret")
    browser.find("dialog [name='tag monitoring']").click()
    send(browser, "Add")
    closed(browser)
    assert api.call("GET", "users/made")["tags"] == ["monitoring"]
    browser.open("/users/made")
    browser.button("Set permissions").click()
    fill(browser, vhost="/", configure="^a", write="^b", read="^c")
    send(browser, "Set")
    closed(browser)
    assert api.call("GET", f"permissions/{parts('/', 'made')}")["write"] == "^b"

    browser.open("/vhosts")
    browser.button("Add virtual host").click()
    fill(browser, name="made", description="by the page", type="quorum")
    send(browser, "Add")
    closed(browser)
    assert api.call("GET", "vhosts/made")["default_queue_type"] == "quorum"
    browser.open("/vhosts/made")
    browser.button("Set limit").click()
    fill(browser, limit="max-queues", value="5")
    send(browser, "Set")
    closed(browser)
    assert api.call("GET", "vhost-limits/made") == [{"vhost": "made", "value": {"max-queues": 5}}]

    browser.open("/parameters")
    browser.button("Set parameter").click()
    fill(browser, scope="global", name="made", value='{"a": 1}')
    send(browser, "Set")
    closed(browser)
    assert api.call("GET", "global-parameters/made")["value"] == {"a": 1}
    assert browser.faults() == []


QUEUE = "made by hand"
