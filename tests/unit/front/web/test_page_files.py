"""The files of the management page: how they are answered, and what must never be in them."""

from __future__ import annotations

import asyncio
import hashlib
import re
from pathlib import Path

import pytest
from setuptools.dist import Distribution

from broker.login.client_address import ClientAddress
from front.web.http.request import HttpError, Request, Response
from front.web.page_files import KEPT, PageFiles, read_page
from front.web.router import WebRouter

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "front" / "web" / "page"
OURS = [path for path in sorted(PAGE.rglob("*.*")) if path.parent.name != "vendor"]
SCRIPTS = [path for path in OURS if path.suffix == ".js"]
LOCAL = ClientAddress("127.0.0.1", 40_000, True, "HTTP")
# Of uPlot 1.6.32 as npm has it: what is vendored is that, byte for byte.
VENDORED = {
    "uplot.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uplot.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uplot-license.txt": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}
LINES_MAX, COLUMNS_MAX = 500, 128
# Each could make an element, a script or an address of a name.
FORBIDDEN = (
    "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "DOMParser", "srcdoc",
    "setHTML", "createContextualFragment", "http://", "https://",
)  # fmt: skip


def ask(target: str, **headers: str) -> Response:
    router = WebRouter()
    PageFiles().add_routes(router)
    raw = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    request = Request("GET", target, raw, b"", LOCAL, 1)
    route, named = router.find(request)

    async def answer() -> Response:
        return await route.handler(request, **named)

    return asyncio.run(answer())


def header(response: Response, name: str) -> str:
    return dict(response.headers)[name]


def test_the_document_names_its_files_under_the_version_and_is_checked_each_time() -> None:
    version, _ = read_page()
    document = ask("/")
    assert document.content_type == "text/html; charset=utf-8"
    assert f"page/{version}/app.js".encode() in document.body
    assert b"VERSION" not in document.body
    assert header(document, "Cache-Control") == "no-cache"


@pytest.mark.parametrize("target", ["/", "/page/v/app.js"])
def test_a_browser_lets_the_page_run_and_load_nothing_of_others_and_be_in_no_frame(target: str) -> None:
    """Written down a second time, so that a directive that goes missing is noticed."""
    found = ask(target)
    assert set(header(found, "Content-Security-Policy").split("; ")) == {
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "font-src 'self'",
        "connect-src 'self'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'",
        "require-trusted-types-for 'script'", "trusted-types 'none'",
    }  # fmt: skip
    names = ("Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy")
    assert [header(found, name) for name in names] == ["same-origin", "same-origin"]


def test_every_file_that_the_document_names_is_there() -> None:
    named = re.findall(r'(?:href|src)="([^"]+)"', ask("/").body.decode())
    assert len(named) > 5
    for name in named:
        assert ask(f"/{name}").status == 200, name


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("app.js", "text/javascript; charset=utf-8"),
        ("views/queues.js", "text/javascript; charset=utf-8"),
        ("style/base.css", "text/css; charset=utf-8"),
        ("leveret.svg", "image/svg+xml"),
        ("vendor/uplot-license.txt", "text/plain; charset=utf-8"),
    ],
)
def test_files_have_their_types_and_are_kept_under_their_version_only(name: str, content_type: str) -> None:
    version, _ = read_page()
    found = ask(f"/page/{version}/{name}")
    assert (found.content_type, found.body) == (content_type, (PAGE / name).read_bytes())
    assert KEPT in found.headers
    assert header(ask(f"/page/0123456789abcdef/{name}"), "Cache-Control") == "no-cache"


def test_a_file_that_the_browser_has_is_not_sent_again() -> None:
    document = ask("/")
    tag = header(document, "ETag")
    assert ask("/", if_none_match=tag).status == 304
    assert ask("/", if_none_match=f'"other", W/{tag}').status == 304
    assert ask("/", if_none_match='"other"').status == 200


@pytest.mark.parametrize(
    "target",
    [
        "/page/v/none.js",
        "/page/v/views/none.js",
        "/page/v/../app.js",
        "/page/v/%2e%2e%2fapi.py",
        "/page/v/views/..%2F..%2F..%2Fapi.py",
        "/page/v/..%2Fpage_files.py",
        "/page/v/a/b/c.js",
        "/page/v/",
        "/page",
    ],
)
def test_what_is_no_file_of_the_page_is_not_found(target: str) -> None:
    with pytest.raises(HttpError) as refused:
        ask(target)
    assert refused.value.status == 404


def test_what_is_vendored_is_what_npm_has() -> None:
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (PAGE / "vendor").iterdir()}
    assert hashes == VENDORED


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(PAGE)))
def test_no_text_can_become_markup_or_a_request_to_elsewhere(path: Path) -> None:
    text = path.read_text().replace('"http://www.w3.org/2000/svg"', "")
    assert [word for word in FORBIDDEN if word in text] == []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(PAGE)))
def test_modules_import_what_is_there_and_views_know_nothing_of_each_other(path: Path) -> None:
    imported = re.findall(r'^(?:import|export) .*?"(\.[^"]+)";$', path.read_text(), re.MULTILINE | re.DOTALL)
    found = [(path.parent / name).resolve() for name in imported]
    assert [str(one) for one in found if not one.exists()] == []
    rooms = {"core": {"core"}, "parts": {"core", "parts"}, "views": {"core", "parts"}}
    if path.stem not in ("all", "app", "shell"):
        below = rooms.get(path.parent.name, {"core", "parts", "views"})
        assert {one.parent.name for one in found} <= below


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(PAGE)))
def test_what_is_imported_is_used(path: Path) -> None:
    text = path.read_text()
    imported = re.findall(r"^import \{([^}]+)\}", text, re.MULTILINE)
    names = [name.split()[-1] for group in imported for name in group.replace("\n", " ").split(",") if name.strip()]
    assert [name for name in names if len(re.findall(rf"\b{name}\b", text)) < 2] == []


def test_what_is_exported_is_used() -> None:
    texts = {path: path.read_text() for path in SCRIPTS}
    unused = []
    for path, text in texts.items():
        for name in re.findall(r"^export (?:async )?(?:function|const|class) (\w+)", text, re.MULTILINE):
            others = (other for place, other in texts.items() if place != path)
            if not any(re.search(rf"\b{name}\b", other) for other in others):
                unused.append(f"{path.relative_to(PAGE)}: {name}")
    assert unused == []


@pytest.mark.parametrize("path", OURS, ids=lambda path: str(path.relative_to(PAGE)))
def test_files_can_be_held_in_mind_and_say_what_they_are_for(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) <= LINES_MAX
    assert max(map(len, lines)) <= COLUMNS_MAX
    if path.suffix == ".js":
        assert lines[0].startswith("// ")


def test_the_document_has_no_script_and_no_style_of_its_own() -> None:
    document = (PAGE / "index.html").read_text()
    assert re.findall(r"<script[^>]*>(.+?)</script>|<style|\sstyle=|\son\w+=", document) == []


def test_a_wheel_carries_every_file_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    distribution = Distribution()
    distribution.parse_config_files()
    distribution.include_package_data = False  # what pyproject.toml names has to do, without a list of sources
    build = distribution.get_command_obj("build_py")
    build.ensure_finalized()
    carried = {name for package, _, _, names in build.data_files if package == "front.web" for name in names}
    assert carried >= {str(path.relative_to(PAGE.parent)) for path in PAGE.rglob("*.*")}
