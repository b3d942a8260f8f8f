"""A headless Chromium with the management page in it, and what went wrong there: errors, refused content, foreign requests."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from urllib.parse import urlsplit

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

T = TypeVar("T")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
DRIVER = "chromedriver"
SHOWN_WITHIN_S = 20.0
EVERY_S = 0.05
FIRST_BUTTON = """
    const seen = (one) => one.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    return [...document.querySelectorAll(arguments[0])].find((one) => seen(one) && one.innerText.trim() === arguments[1]);
"""
OWN_SCHEMES = ("data", "blob", "about", "chrome")  # nothing is fetched for these from anywhere

# Runs before any script of the page: what the browser refuses to load or to run, and what nobody caught.
WITNESS = """
window.__refused = [];
const refuse = ({violatedDirective, blockedURI}) => __refused.push(`${violatedDirective} ${blockedURI}`);
document.addEventListener("securitypolicyviolation", refuse);
window.__thrown = [];
addEventListener("error", (event) => __thrown.push(String(event.message)));
addEventListener("unhandledrejection", (event) => __thrown.push(String(event.reason)));
window.alert = (text) => __thrown.push(`alert ${text}`);
"""

# Ends when the page has heard of the change, and so no longer shows the view before.
OPENED = """
const [route, done] = arguments, before = location.hash;
location.hash = route;
if (location.hash === before) done();
else addEventListener("hashchange", () => done(), {once: true});
"""


def browser_path() -> str | None:
    return next((found for name in BROWSERS if (found := shutil.which(name)) is not None), None)


def is_browser_here() -> bool:
    return browser_path() is not None and shutil.which(DRIVER) is not None


class PageBrowser:
    """One window. `address` is a node's HTTP listener."""

    def __init__(self, driver: webdriver.Chrome, address: tuple[str, int]) -> None:
        self.driver = driver
        self.origin = f"http://{address[0]}:{address[1]}"
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WITNESS})
        # Else :focus, and what is seen by it alone, comes and goes with the window's own focus, which nobody here holds.
        driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})

    # going about

    def log_in(self, user: str = "guest", password: str = "guest") -> None:
        self.driver.get(f"{self.origin}/")
        self.find("input[name=username]").send_keys(user)
        self.find("input[name=password]").send_keys(password, Keys.ENTER)
        self.find("nav#menu")
        self.shown()

    def open(self, route: str) -> None:
        """A view, by what stands behind the #. Returns when its data is there."""
        self.driver.execute_async_script(OPENED, route)
        self.shown()

    def shown(self) -> None:
        self.until("no view was shown", lambda: not self.all(".loading") and bool(self.all("main h1, main .empty")))

    def find(self, selector: str) -> WebElement:
        return self.until(f"nothing is {selector}", lambda: next(iter(self.all(selector)), None))

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str = "body") -> str:
        found: str = self.driver.execute_script(
            "return document.querySelector(arguments[0])?.innerText ?? ''", selector
        )
        return found

    def button(self, label: str, within: str = "body") -> WebElement:
        """The first that can be seen and is called so, asked for at once: a list of 500 messages has as many."""

        def look() -> WebElement | None:
            found: WebElement | None = self.driver.execute_script(FIRST_BUTTON, f"{within} button", label)
            return found

        return self.until(f"no button {label!r} in {within}", look)

    def until(self, otherwise: str, there: Callable[[], T | None], within_s: float = SHOWN_WITHIN_S) -> T:
        wait = WebDriverWait(self.driver, within_s, EVERY_S)
        return wait.until(lambda _: there() or False, f"{otherwise}; the page says\n{self.text()[:2000]}")

    def sized(self, width: int, height: int = 900) -> None:
        """As a window would be; windows cannot be as narrow as telephones are."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def themed(self, theme: str) -> None:
        """As the system would say: light or dark."""
        features = [
            {"name": "prefers-color-scheme", "value": theme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    # what went wrong

    def faults(self) -> list[str]:
        """Since it was asked last: errors of the console, what the policy refused, requests to anywhere else."""
        said = [f"console: {one['message']}" for one in self.driver.get_log("browser") if one["level"] == "SEVERE"]
        refused = [f"refused: {one}" for one in self._taken("__refused")]
        thrown = [f"thrown: {one}" for one in self._taken("__thrown")]
        return said + refused + thrown + [f"foreign: {one}" for one in self._foreign()]

    def _taken(self, name: str) -> list[str]:
        found: list[str] = self.driver.execute_script(f"return window.{name}.splice(0)")
        return found

    def _foreign(self) -> list[str]:
        asked = [one for one in self._requests() if urlsplit(one).scheme not in OWN_SCHEMES]
        return [one for one in asked if not one.startswith(f"{self.origin}/")]

    def _requests(self) -> Iterator[str]:
        for entry in self.driver.get_log("performance"):
            message: dict[str, Any] = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                yield message["params"]["request"]["url"]


@contextlib.contextmanager
def page_browser(address: tuple[str, int]) -> Iterator[PageBrowser]:
    """Both paths are given, so that selenium fetches nothing."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(browser_path())
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    for argument in ("--headless=new", "--disable-dev-shm-usage", "--window-size=1280,900", "--disable-gpu"):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    with tempfile.TemporaryDirectory(prefix="leveret-browser-") as profile:
        options.add_argument(f"--user-data-dir={profile}")
        driver = webdriver.Chrome(options=options, service=Service(shutil.which(DRIVER)))
        try:
            yield PageBrowser(driver, address)
        finally:
            driver.quit()
