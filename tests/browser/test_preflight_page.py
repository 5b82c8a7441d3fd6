"""The page of a preflight in headless Chromium: silent, inside its window, readable; sorting works."""

from collections.abc import Iterator

import pytest

from launcher.report.preflight_page.page import render_preflight_page
from tests.browser.chromium import Page, chromium_page, find_chromium
from tests.launcher.preflight_fleets import deep_document, fleet
from tests.launcher.report_runs import EVIL

_CHROMIUM = find_chromium()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(_CHROMIUM is None, reason="no Chromium here: sudo apt install chromium"),
]

# Every visible text against the first opaque ground behind it, by the formula of WCAG 2.2, 1.4.3.
_LOW_CONTRAST = """
(() => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = (rgb) => rgb.slice(0, 3).map((c) => c / 255)
    .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = parse(getComputedStyle(each).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const low = [];
  let seen = 0;
  for (const element of document.querySelectorAll("main *")) {
    const own = Array.from(element.childNodes).some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !element.checkVisibility()) continue;
    seen += 1;
    const ink = parse(getComputedStyle(element).color);
    const pair = [luminance(ink), luminance(ground(element))].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (ratio < 4.5) low.push(`${element.tagName}.${element.className} ${ratio.toFixed(2)}`);
  }
  return {seen, low: Array.from(new Set(low))};
})()
"""
_OVERFLOW = "document.scrollingElement.scrollWidth - window.innerWidth"


@pytest.fixture(name="tab", scope="module")
def _tab() -> Iterator[Page]:
    assert _CHROMIUM is not None
    with chromium_page(_CHROMIUM) as page:
        yield page


@pytest.fixture(name="shown", scope="module")
def _shown(tab: Page, tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Return the tab with the page of hosts whose every text is hostile."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    text = render_preflight_page(
        fleet(evil=EVIL), made_at=1763800000.0, version="1", deep=deep_document(evil=EVIL)
    )
    path.write_text(text, encoding="utf-8")
    tab.show(1180)
    tab.open(path)
    return tab


def test_the_page_is_silent_and_asks_for_nothing(shown: Page) -> None:
    assert shown.complaints == []
    assert [url.rpartition("/")[2] for url in shown.requests] == ["page.html"]
    assert shown.evaluate("document.querySelectorAll('img').length") == 0
    embedded = "JSON.parse(document.getElementById('gpulaunch-preflight').textContent).schema"
    assert shown.evaluate(embedded) == "gpulaunch.preflight/1"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_fits_every_window_and_can_be_read(shown: Page, *, dark: bool) -> None:
    for width, medium in ((360, ""), (768, ""), (1180, ""), (720, "print")):
        shown.show(width, dark=dark, medium=medium)
        assert shown.evaluate(_OVERFLOW) <= 0, (width, medium)
        found = shown.evaluate(_LOW_CONTRAST)
        assert found["seen"] > 300
        assert found["low"] == [], (width, medium)
    assert shown.complaints == []


def test_print_opens_what_is_folded_and_a_click_selects_a_command(shown: Page) -> None:
    unseen = (
        "Array.from(document.querySelectorAll('details > *')).filter((e) => !e.checkVisibility({"
        "contentVisibilityAuto: true})).length"
    )
    shown.show(720, medium="print")
    assert shown.evaluate(unseen) == 0
    shown.show(1180)
    shown.evaluate("document.querySelector('.fix code').scrollIntoView()")
    box = shown.evaluate("document.querySelector('.fix code').getClientRects()[0].toJSON()")
    shown.click(box["x"] + 20, box["y"] + 5)
    command = shown.evaluate("document.querySelector('.fix code').textContent")
    assert shown.evaluate("getSelection().toString()") == command


def test_a_column_sorts_and_a_cell_leads_to_its_findings(shown: Page) -> None:
    shown.show(1180)
    heads = shown.evaluate("Array.from(document.querySelectorAll('.heat thead th'), (e) => e.textContent)")
    place = heads.index("PROC")
    column = (
        f"Array.from(document.querySelectorAll('.heat tbody tr'), (row) => row.cells[{place}].textContent)"
    )
    before = shown.evaluate(column)
    shown.evaluate(f"document.querySelectorAll('.heat thead button')[{place}].click()")
    assert shown.evaluate(column) == sorted(before, key="CUWNIP".index) != before
    shown.evaluate("document.querySelector('.heat td.c a').click()")
    assert shown.evaluate("document.querySelector(':target').matches('section.code')") is True
    assert shown.complaints == []
