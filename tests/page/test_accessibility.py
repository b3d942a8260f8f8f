"""The page can be used without a mouse and without good eyes: axe-core in both themes, and a tour with the keyboard alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.page.axe import grave_findings
from tests.page.hostile_node import NAMES
from tests.page.views import LISTS, details_of

if TYPE_CHECKING:
    from tests.page.browser import PageBrowser

pytestmark = pytest.mark.page
STOPS_MAX = 250
FOCUSED = """
const one = document.activeElement, box = one.getBoundingClientRect(), style = getComputedStyle(one);
return {tag: one.localName, text: (one.innerText || one.getAttribute("aria-label") || one.id || "").slice(0, 40),
        id: one.id, size: box.width * box.height, outline: style.outlineStyle};
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", [*LISTS, *details_of(NAMES[1])])
def test_axe_finds_nothing_grave(browser: PageBrowser, view: str, theme: str) -> None:
    browser.themed(theme)
    browser.open(f"/{view}")
    assert grave_findings(browser) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_grave_in_a_dialog_and_in_an_opened_message(browser: PageBrowser, theme: str) -> None:
    browser.themed(theme)
    browser.open(f"/{details_of(NAMES[0])[1]}")
    browser.find(".messages summary").click()
    assert grave_findings(browser) == []
    browser.open("/queues")
    browser.button("Declare").click()
    assert grave_findings(browser) == []
    browser.button("Cancel").click()


def test_every_stop_of_the_tab_key_can_be_seen(browser: PageBrowser) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.open("/queues")
    browser.driver.execute_script("arguments[0].focus()", browser.find(".skip"))
    seen = [browser.driver.execute_script(FOCUSED)]
    for _ in range(STOPS_MAX):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        stop = browser.driver.execute_script(FOCUSED)
        if stop["tag"] == "body" or stop["text"] == "Skip to content":
            break
        seen.append(stop)
    assert [one for one in seen[1:] if one["outline"] == "none" or one["size"] == 0] == []
    said = [one["text"] for one in seen]
    for wanted in ("Queues and streams", "Declare", "Name", NAMES[2]):
        assert any(wanted in text for text in said), f"{wanted} in {said}"


def test_a_tour_with_the_keyboard_alone(browser: PageBrowser) -> None:
    from selenium.webdriver.common.keys import Keys

    def press(*keys: str) -> None:
        for key in keys:
            browser.driver.switch_to.active_element.send_keys(key)

    def focus(selector: str) -> None:
        """As many tabs would."""
        browser.driver.execute_script("arguments[0].focus()", browser.find(selector))

    browser.open("/queues")
    focus(".skip")
    press(Keys.ENTER)
    assert browser.driver.execute_script(FOCUSED)["id"] == "main"
    press("/")
    assert browser.driver.execute_script(FOCUSED)["id"] == "filter"
    press("alert(3)")  # a queue, and the one of an exchange of delayed messages
    browser.until("the list was not filtered", lambda: len(browser.all("main tbody tr")) == 2)
    assert browser.driver.execute_script(FOCUSED)["id"] == "filter", "the focus stays where one types"
    focus("thead .sort")
    press(Keys.ENTER)
    browser.until("the list was not sorted", lambda: browser.all("th[aria-sort]"))
    focus("main .actions button")
    press(Keys.ENTER)
    browser.find("dialog[open]")
    press(Keys.ESCAPE)
    browser.until("the dialog stayed", lambda: not browser.all("dialog"))
    assert browser.driver.execute_script(FOCUSED)["text"] == "Declare"
    focus("main tbody .name")
    press(Keys.ENTER)
    browser.until("no queue was opened", lambda: "alert(3)" in browser.text("h1"))
    assert browser.faults() == []
