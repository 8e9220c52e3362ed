"""The page in a real browser: everything is there, nothing is fetched, nothing goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.report.made import made

from phalanx.pipeline.report.html import assemble
from phalanx.pipeline.report.model import Page

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from playwright.sync_api import Page as Tab

HOSTILE = "</script><img src=x onerror=alert(1)>\u202e{{DATA}}"
LAPTOP, PHONE = (1280, 800), (375, 740)


@contextmanager
def opened(
    browser: Browser, file: Path, size: tuple[int, int] = LAPTOP, scheme: Any = "light"
) -> Iterator[Tab]:
    """The page in a tab. Afterwards: no error, no message, no request but for the file itself."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, offline=True
    )
    tab = context.new_page()
    tab.set_default_timeout(10_000)
    said: list[str] = []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
    tab.on("request", lambda request: said.append(request.url))
    tab.goto(file.as_uri())
    yield tab
    assert said == [file.as_uri()]
    context.close()


@pytest.fixture(scope="module")
def file(page: Page, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(assemble(page), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "hostile.html"
    path.write_text(assemble(made(HOSTILE)), encoding="utf-8")
    return path


def count(tab: Tab, selector: str) -> int:
    return tab.locator(selector).count()


def choose(tab: Tab, page: Page, run: str) -> None:
    tab.select_option("#run", str([r.run for r in page.runs].index(run)))


def test_every_part_of_a_run_is_there(browser: Browser, file: Path, page: Page) -> None:
    run = next(run for run in page.runs if run.run == "simulated")
    with opened(browser, file) as tab:
        choose(tab, page, "simulated")
        assert tab.inner_text("h1") == run.group
        assert count(tab, "#bands .band") == len(run.bands.life)
        assert tab.locator("#verdict .tally").inner_text().split("\n")[0] == "✕ 1 is violated"
        assert count(tab, ".finding") == len(run.findings)
        assert count(tab, ".broken li") == 5
        sign = tab.locator(".broken .icon").bounding_box()
        assert sign is not None
        assert sign["height"] < 30
        assert count(tab, "#matrix tbody tr") == count(tab, "#matrix tbody tr:first-child td") == 5
        assert count(tab, "#throughput .column rect") > 0
        assert count(tab, "#latency .middle") == len(run.latency)
        assert 0 < count(tab, ".removal") <= len(run.removals)
        assert count(tab, "#journal-table tbody tr") == len(run.lives)


def test_brushing_the_bands_chooses_the_window_and_draws_its_lines(
    browser: Browser, file: Path, page: Page
) -> None:
    run = next(run for run in page.runs if run.run == "simulated")
    with opened(browser, file) as tab:
        choose(tab, page, "simulated")
        before = tab.inner_text("#window")
        tab.locator("#bands").scroll_into_view_if_needed()
        box = tab.locator("#bands .axis").first.bounding_box()
        assert box is not None
        start = min(run.sends.at) / run.span
        y = box["y"] - 40
        tab.mouse.move(box["x"] + box["width"] * (start - 0.01), y)
        tab.mouse.down()
        tab.mouse.move(box["x"] + box["width"] * (start + 0.05), y, steps=5)
        tab.mouse.up()
        assert tab.inner_text("#window") != before
        drawn = tab.locator("#diagram path[data-lines]").evaluate_all(
            "paths => paths.reduce((sum, path) => sum + Number(path.dataset.lines), 0)"
        )
        assert drawn > 0
        assert "drawn" in tab.inner_text("#share")
        tab.click("#whole")
        assert f"All {len(run.sends.at)} ranges" in tab.inner_text("#share")


def test_everything_can_be_reached_with_the_keyboard(
    browser: Browser, file: Path, page: Page
) -> None:
    with opened(browser, file) as tab:
        choose(tab, page, "simulated")
        assert count(tab, ".band[tabindex='0']") == 1
        tab.focus(".band[tabindex='0']")
        tab.keyboard.press("ArrowRight")
        assert count(tab, ".band[tabindex='0']") == 1
        assert tab.locator("#tip").is_visible()
        before = tab.inner_text("#window")
        tab.keyboard.press("Enter")
        assert tab.inner_text("#window") != before
        tab.focus("#grip-begin")
        tab.keyboard.press("Shift+ArrowRight")
        assert tab.evaluate("document.activeElement.id") == "grip-begin"
        assert tab.locator("#tip").is_hidden()


def test_what_can_be_used_or_seen_has_a_name(browser: Browser, file: Path, page: Page) -> None:
    with opened(browser, file) as tab:
        choose(tab, page, "simulated")
        nameless = tab.evaluate("""() => {
            const named = (node) => node.getAttribute("aria-label") || node.textContent.trim()
              || (node.labels && node.labels.length) || node.closest("[aria-hidden=true]");
            const all = "button, a, select, input, summary, [role=button], [role=slider], "
              + "[role=img], [role=region], [role=group]";
            const found = [...document.querySelectorAll(all)];
            return found.filter((node) => !named(node)).map((node) => node.outerHTML);
        }""")
        assert nameless == []
        levels = tab.evaluate(
            "() => [...document.querySelectorAll('h1,h2,h3')].map((h) => Number(h.tagName[1]))"
        )
        assert levels[0] == 1
        assert all(b - a <= 1 for a, b in pairwise(levels))
        ids = tab.evaluate("() => [...document.querySelectorAll('[id]')].map((n) => n.id)")
        assert len(ids) == len(set(ids))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(
    browser: Browser, hostile: Path, scheme: str
) -> None:
    with opened(browser, hostile, scheme=scheme) as tab:
        pairs = tab.evaluate("""() => {
            const ratio = (a, b) => {
              const light = (c) => {
                const [r, g, b] = c.match(/[\\d.]+/g).map((v) => v / 255)
                  .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
              };
              const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
              return (x + 0.05) / (y + 0.05);
            };
            const behind = (node) => {
              for (let n = node; n; n = n.parentElement) {
                const colour = getComputedStyle(n).backgroundColor;
                if (!/rgba\\(.*, 0\\)/.test(colour) && colour.startsWith("rgb(")) return colour;
              }
            };
            const all = "p, dt, dd, li, th, td, b, a, button, summary, .pill, .chip, .meaning";
            return [...document.querySelectorAll(all)]
              .filter((n) => n.textContent.trim() && !n.closest("[hidden], .matrix, #tip, .skip"))
              .map((n) => [ratio(getComputedStyle(n).color, behind(n)), n.textContent.slice(0, 40)])
              .filter(([r]) => r < 4.5);
        }""")
        assert pairs == []


@pytest.mark.parametrize("size", [LAPTOP, PHONE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_laptop_and_a_phone_by_day_and_by_night(
    browser: Browser, file: Path, tmp_path: Path, size: tuple[int, int], scheme: str
) -> None:
    with opened(browser, file, size, scheme) as tab:
        assert tab.evaluate("document.documentElement.scrollWidth") <= size[0]
        shot = tab.screenshot(path=tmp_path / f"{size[0]}-{scheme}.png", full_page=True)
        assert len(shot) > 20_000
        paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == ("rgb(253, 253, 251)" if scheme == "light" else "rgb(20, 23, 27)")


def test_a_hostile_name_is_text_and_nothing_more(browser: Browser, hostile: Path) -> None:
    with opened(browser, hostile, PHONE) as tab:
        assert count(tab, "img") == 0
        visible = HOSTILE.replace("\u202e", "\\u{202e}")
        assert tab.inner_text("h1") == visible
        assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
        assert tab.title().startswith("</script>")
        tab.locator("#events summary").click()
        tab.locator(".broken summary").click()
        assert visible in tab.inner_text(".broken")
        assert visible in tab.inner_text("#removal-list")


def test_it_prints_without_what_only_a_screen_needs(browser: Browser, file: Path) -> None:
    with opened(browser, file) as tab:
        tab.emulate_media(media="print")
        assert tab.locator("nav").is_hidden()
        assert tab.locator("#earlier").is_hidden()
        assert tab.locator("#bands svg").is_visible()
        assert len(tab.pdf(format="A4")) > 20_000
