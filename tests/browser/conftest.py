"""A real browser for pages opened from `file://`: Debian's Chromium, driven by playwright.

Tests skip where either is absent. `open_page` is what they use. It fails a test whose page logs an error, asks for
anything but its own file, or runs into its own Content-Security-Policy: none of our pages does.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
OWN = ("data:", "blob:")
"""Addresses that stand for what the page itself holds."""
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation",
    (event) => window.violations.push(event.violatedDirective + " " + event.blockedURI));
"""


def chromium() -> str | None:
    """The browser of ROOFLINE_TESTS_CHROMIUM, else the first one on the path."""
    named = os.environ.get("ROOFLINE_TESTS_CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One browser for all tests of the session; each test gets its own context by `open_page`."""
    playwright = pytest.importorskip("playwright.sync_api")
    path = chromium()
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed, and ROOFLINE_TESTS_CHROMIUM names none")
    with playwright.sync_playwright() as driver:
        # As root, as containers are, Chromium runs only without its sandbox; and /dev/shm is small there.
        found = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield found
        found.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a file as a page: `open_page(path)`, with playwright's context options (color_scheme=, viewport=, ...).

    At the end of the test every page is held to what is said above.
    """
    contexts: list[Any] = []
    watched: list[tuple[Any, list[str], list[str], str]] = []

    def opened(path: Path, *, fragment: str = "", **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        # The machine is shared: slow is no fault.
        page.set_default_timeout(60_000)
        requests: list[str] = []
        faults: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: faults.append(f"uncaught: {error}"))
        page.on("console", lambda said: faults.append(said.text) if said.type in ("error", "warning") else None)
        page.on("dialog", lambda dialog: (faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.add_init_script(WATCH)
        address = path.resolve().as_uri()
        page.goto(address + fragment)
        watched.append((page, requests, faults, address))
        return page

    yield opened
    try:
        for page, requests, faults, address in watched:
            others = [url for url in requests if url.split("#")[0] != address and not url.startswith(OWN)]
            violations = [] if page.is_closed() else page.evaluate("window.violations || []")
            assert others == [], f"the page asked the network for {others}"
            assert faults == [], f"the page complained: {faults}"
            assert violations == [], f"the page broke its own policy: {violations}"
    finally:
        for context in contexts:
            context.close()
