"""A browser without a window, for tests of pages. Use it as a fixture: `yield from browsing(folder)`."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selenium.webdriver import Chrome

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="apt-get install chromium chromium-driver")


def browsing(profile: Path) -> Iterator[Chrome]:
    """Yield a browser that keeps its own files in a folder, and end it."""
    from selenium import webdriver  # noqa: PLC0415 - only where there is a browser

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for argument in ("headless", "no-sandbox", "disable-gpu", "disable-background-networking", "no-first-run"):
        options.add_argument(f"--{argument}")
    options.add_argument(f"--user-data-dir={profile}")
    chrome = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    chrome.set_script_timeout(300)  # a busy machine takes its time
    chrome.set_page_load_timeout(300)
    yield chrome
    chrome.quit()
