"""The page of ``amplint trace`` in a browser: it sorts, filters, folds, zooms, and leads to the source.

Needs selenium, and a Chromium with its chromedriver on the PATH (or named by CHROME and CHROMEDRIVER).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from traces import FILE, SOURCE, recording

from amplint.report import trace_html

webdriver: Any = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

CHROME = os.environ.get("CHROME") or shutil.which("chromium") or shutil.which("google-chrome")
CHROMEDRIVER = os.environ.get("CHROMEDRIVER") or shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not CHROME or not CHROMEDRIVER, reason="no Chromium with a chromedriver is installed"
)

_QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROME
    for argument in (
        *_QUIET,
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
        "--window-size=1280,900",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(CHROMEDRIVER)
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


@pytest.fixture
def page(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The browser with a fresh page in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / FILE).write_text(SOURCE)
    (tmp_path / "trace.html").write_text(trace_html.render(recording()), encoding="utf-8")
    browser.get((tmp_path / "trace.html").as_uri())
    yield browser
    assert browser.get_log("browser") == []


def rows(page: Any, section: str) -> list[Any]:
    """The rows of a section's table that are shown."""
    return [row for row in page.find_elements("css selector", f"#{section} tbody tr") if row.is_displayed()]


def column(page: Any, section: str, number: int) -> list[str]:
    """What a column of the rows shows."""
    return [
        row.find_elements("css selector", "td")[number].text.splitlines()[0] for row in rows(page, section)
    ]


def click_head(page: Any, section: str, name: str) -> str:
    """Clicks on a column's head; the order that it says then."""
    heads = page.find_elements("css selector", f"#{section} th")
    head = next(head for head in heads if head.text.rstrip(" ↑↓") == name)
    head.find_element("css selector", "button").click()
    order: str = head.get_attribute("aria-sort")
    return order


def choose(page: Any, name: str, value: str) -> None:
    page.find_element("css selector", f'select[name="{name}"] option[value="{value}"]').click()


def search(page: Any, text: str) -> None:
    field = page.find_element("id", "search")
    field.clear()
    field.send_keys(text or " ")


def test_a_click_on_a_head_sorts_and_another_one_turns_the_order(page: Any) -> None:
    assert column(page, "casts", 0) == ["600 kB", "200 kB", "100 B", "50 B"]
    assert click_head(page, "casts", "bytes") == "ascending"
    assert column(page, "casts", 0) == ["50 B", "100 B", "200 kB", "600 kB"]
    assert click_head(page, "casts", "by") == "ascending"
    assert column(page, "casts", 5) == ["autocast", "autocast", "code", "library"]
    assert click_head(page, "casts", "by") == "descending"
    assert column(page, "casts", 5) == ["library", "code", "autocast", "autocast"]


def test_modules_sorted_by_name_are_the_tree_again(page: Any) -> None:
    tree = [row.get_attribute("data-name") for row in rows(page, "modules")]
    click_head(page, "modules", "bytes")
    assert rows(page, "modules")[0].get_attribute("data-name") == "Net"
    assert click_head(page, "modules", "module") == "ascending"
    assert [row.get_attribute("data-name") for row in rows(page, "modules")] == tree


def test_what_is_searched_for_stays_with_the_modules_around_it(page: Any) -> None:
    search(page, "LAYERS.17")
    assert [row.get_attribute("data-name") for row in rows(page, "modules")] == [
        "Net",
        "Net.layers",
        "Net.layers.17",
    ]
    assert rows(page, "casts") == []
    assert page.find_element("css selector", "#casts .none").text == "Nothing matches."
    search(page, "")
    assert len(rows(page, "modules")) == 51
    assert len(rows(page, "casts")) == 4


def test_a_choice_narrows_its_own_table(page: Any) -> None:
    choose(page, "by", "code")
    assert column(page, "casts", 6) == ["float"]
    choose(page, "what", "weight")
    assert rows(page, "casts") == []
    assert len(rows(page, "modules")) == 51
    choose(page, "by", "")
    assert column(page, "casts", 4) == ["weight"]


def test_modules_are_chosen_by_the_type_that_they_ran_in(page: Any) -> None:
    choose(page, "types", "float32")
    choose(page, "kind", "Linear")
    assert [row.get_attribute("data-name") for row in rows(page, "modules")] == [
        "Net",
        "Net.layers",
        "Net.layers.17",
    ]


def test_a_module_closes_and_opens(page: Any) -> None:
    twist = page.find_element("css selector", 'tr[data-name="Net.layers"] .twist')
    twist.click()
    assert column(page, "modules", 0) == ["Net", "layers", "outside modules"]
    assert twist.get_attribute("aria-expanded") == "false"
    search(page, "layers.17")  # what is searched for is shown all the same
    assert column(page, "modules", 0) == ["Net", "layers", "17"]
    search(page, "")
    twist.click()
    assert len(rows(page, "modules")) == 51


def test_a_click_leads_to_the_line_in_the_source(page: Any) -> None:
    page.find_element("css selector", 'tr[data-name="Net.layers.17"] .place a').click()
    line = page.find_element("css selector", ".l:target")
    assert "x = self.layer(x)" in line.text
    top = page.execute_script("return arguments[0].getBoundingClientRect().top", line)
    bottom = page.execute_script("return document.querySelector('.tools').getBoundingClientRect().bottom")
    assert bottom <= top < 900  # not under the bar that stays at the top


def test_what_stands_out_leads_to_its_row(page: Any) -> None:
    page.find_element("css selector", ".odd a").click()
    row = page.find_element("css selector", "tr:target")
    assert row.get_attribute("data-name") == "Net.layers.17"


def test_a_line_shows_its_ops(page: Any) -> None:
    line = page.find_element("id", "s0-4")
    tip = line.find_element("css selector", ".tip")
    assert not tip.is_displayed()
    page.execute_script("arguments[0].focus()", line)
    assert "linear" in tip.text


def test_the_timeline_grows_with_its_slider(page: Any) -> None:
    lanes = page.find_element("css selector", ".lanes")
    before = lanes.size["width"]
    page.execute_script(
        "const range = document.querySelector('input[type=range]'); range.value = 2;"
        "range.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    assert abs(lanes.size["width"] - 4 * before) < 8


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize(("scheme", "is_dark"), [("dark", True), ("light", False)])
def test_the_page_is_as_wide_as_the_window_and_dark_where_that_is_preferred(
    page: Any, width: int, scheme: str, is_dark: bool
) -> None:
    preferred = {"name": "prefers-color-scheme", "value": scheme}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [preferred]})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        root = "document.documentElement"
        assert page.execute_script(f"return {root}.scrollWidth <= {root}.clientWidth && innerWidth") == width
        paper = page.execute_script(
            "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
        )
        assert (sum(paper) < 3 * 128) is is_dark
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_long_names_do_not_make_the_page_wider(page: Any) -> None:
    size = {"width": 400, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.execute_script(
            "document.querySelectorAll('.odd a, select option')"
            ".forEach(part => part.textContent = 'ForConditionalGeneration'.repeat(5))"
        )
        root = "document.documentElement"
        assert page.execute_script(f"return {root}.scrollWidth <= {root}.clientWidth")
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_lines_in_a_region_begin_where_the_others_do(page: Any) -> None:
    lefts = page.execute_script(
        "return [...document.querySelectorAll('.l code')].map(code => Math.round(code.getBoundingClientRect().left))"
    )
    assert len(set(lefts)) == 1
