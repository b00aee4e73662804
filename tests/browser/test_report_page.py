"""The report in a real browser, opened from `file://`: what it shows, how it is used, and that nothing in it runs."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from page_documents import CPU, a_test, document, finding, many, measured, probe, result, varied

pytest.importorskip("plotly")

from pytest_roofline.report.html import html_page

CHECKS = f"(() => {{ {Path(__file__).with_name('page_checks.js').read_text(encoding='utf-8')} }})()"
HOSTILE = (
    "</script><script>window.hacked = 1</script><img src=x onerror=\"window.hacked='y'\"> '\"`${1}&lt;"
    "\x00\u202eabc \U0001f600"
)


@pytest.fixture
def show(open_page: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Make the page of a document, open it, and wait until its charts stand."""

    def shown(found: dict[str, Any], **options: Any) -> Any:
        path = tmp_path / "report.html"
        path.write_text(html_page(found), encoding="utf-8")
        page = open_page(path, **options)
        page.wait_for_selector("html[data-ready=yes]", state="attached")
        return page

    return shown


def verdict_names(page: Any) -> list[str]:
    """The verdicts of the table's rows, from above."""
    return [text.strip() for text in page.locator(".results tbody .verdict").all_inner_texts()]


def until(page: Any, condition: str) -> None:
    """Wait for what a script says; playwright's own way of waiting is refused by the policy of the page."""
    for _ in range(600):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"never came true: {condition}")


def points(page: Any, number: int) -> int:
    """Points with a test behind them in a chart."""
    count: int = page.evaluate(
        "(number) => document.querySelectorAll('.chart')[number].data.reduce("
        "(sum, trace) => sum + (trace.customdata ? trace.x.length : 0), 0)",
        number,
    )
    return count


def test_every_test_is_a_point_and_a_row(show: Callable[..., Any]) -> None:
    """Those of the device with the most results stand in the charts; the roofline has those with known arithmetic."""
    found = varied()
    page = show(found)
    rows = sum(max(1, len(test["results"])) for test in found["tests"])
    assert page.locator(".results tbody tr").count() == rows == 17
    # Two are the CPU's, one crashed; of one more the arithmetic is not known.
    assert (points(page, 0), points(page, 1)) == (13, 14)
    assert page.locator("h1").inner_text() == "1 bogus, 2 failed, 2 inconclusive of 16\xa0tests"
    assert "1 result without known arithmetic has no place here" in page.inner_text(".card >> nth=0").replace(
        "\xa0", " "
    )


def test_verdicts_differ_by_shape(show: Callable[..., Any]) -> None:
    """Not by their colour alone: each has a marker of its own in the charts, and the same one in the table."""
    page = show(varied())
    symbols = page.evaluate(
        "document.querySelector('.chart').data.filter((trace) => trace.customdata).map((trace) => trace.marker.symbol)"
    )
    assert sorted(symbols) == ["circle", "diamond-open", "triangle-down", "x", "x-open"]
    marks = page.evaluate(
        "[...new Set([...document.querySelectorAll('.results .mark path')].map("
        "(path) => path.getAttribute('d') + path.getAttribute('fill')))].length"
    )
    assert marks == 5


def test_another_device_has_its_own_roof(show: Callable[..., Any]) -> None:
    """The list of devices changes both charts, and the probe beside them."""
    page = show(varied())
    page.select_option(".picker select", label=f"cpu {CPU['name']}")
    until(page, "document.querySelectorAll('.chart')[0].data.some((trace) => trace.customdata?.length === 1)")
    assert points(page, 0) == 2
    assert "21.0 GB/s" in page.locator(".beside").inner_text().replace("\xa0", " ")


def test_hovering_tells_and_clicking_opens(show: Callable[..., Any]) -> None:
    """Test, intensity, achieved, ceiling and bound in the tooltip; all the rest in the panel."""
    page = show(document(a_test("tests/test_a.py::test_only", result(0.8, intensity=2.0))))
    box = page.locator(".chart").first
    x, y = box.evaluate(
        "(box) => { const { xaxis, yaxis } = box._fullLayout; const trace = box.data.find((one) => one.customdata);"
        "return [xaxis._offset + xaxis.d2p(trace.x[0]), yaxis._offset + yaxis.d2p(trace.y[0])]; }"
    )
    box.hover(position={"x": x, "y": y})
    page.wait_for_selector(".tip.seen")
    told = page.inner_text(".tip").replace("\xa0", " ")
    for words in (
        "test_only",
        "passed",
        "80 % of the ceiling",
        "2.00 FLOP/B",
        "4.83 TFLOP/s",
        "6.04 TFLOP/s",
        "memory",
    ):
        assert words in told
    page.mouse.click(*(box.bounding_box()[axis] + offset for axis, offset in (("x", x), ("y", y))))
    page.wait_for_selector("dialog[open]")
    panel = page.inner_text("dialog").replace("\xa0", " ")
    for words in (
        "test_only",
        "Samples",
        "Traffic",
        "KV cache",
        "Conditions",
        "61.0 °C",
        "Not checked",
        "16.1 GB per pass",
    ):
        assert words in panel
    assert page.url.endswith("#result-1")


def test_the_chart_is_walked_by_keys(show: Callable[..., Any]) -> None:
    """Arrows go from point to point and say it, Enter opens, Escape closes and gives the focus back."""
    page = show(varied())
    page.locator(".chart").first.focus()
    page.keyboard.press("ArrowRight")
    first = page.inner_text(".tip")
    assert page.get_attribute(".tip", "aria-live") == "polite"
    page.keyboard.press("ArrowRight")
    assert page.inner_text(".tip") != first
    page.keyboard.press("End")
    assert "test_prompt_4k" in page.inner_text(".tip")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    assert "test_prompt_4k" in page.inner_text("dialog h2")
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0
    assert page.evaluate("document.activeElement.classList.contains('chart')")


def test_the_panel_shows_findings_traffic_and_samples(show: Callable[..., Any]) -> None:
    """A refused claim with its figures; extra traffic by name; throttled samples marked; every chart as a table."""
    page = show(varied())
    page.click("text=test_three_times_faster")
    told = page.inner_text("dialog").replace("\xa0", " ")
    for words in ("not-drained", "missing synchronization", "What to do: call torch.cuda.synchronize()", "46.8 ms"):
        assert words in told
    page.keyboard.press("Escape")
    page.click("text=test_long_context")
    told = page.inner_text("dialog").replace("\xa0", " ")
    assert "KV cache copied each step" in told
    assert "5.20 GB" in told
    assert page.locator("dialog .traffic .part").count() == 4
    page.keyboard.press("Escape")
    page.click("text=test_hot_card")
    page.wait_for_selector("dialog .js-plotly-plot .scatterlayer")
    page.click("dialog summary")
    assert page.locator("dialog details tbody tr").count() == 30
    assert page.locator("dialog details tbody").inner_text().count("thermal slowdown") == 7
    page.click("dialog [aria-label='Next result']")
    assert "test_hot_card" not in page.inner_text("dialog h2")


def test_the_table_sorts(show: Callable[..., Any]) -> None:
    """The gravest first; by a heading, upwards and then downwards; what has no figure stays below."""
    page = show(varied())
    names = verdict_names(page)
    assert names[0] == "bogus"
    assert names == sorted(names, key=["bogus", "failed", "inconclusive", "bogus (caught)", "passed"].index)
    heading = page.locator(".results th", has_text="Of the ceiling")
    heading.locator("button").click()
    figures = page.locator(".results tbody td:nth-child(4)").all_inner_texts()
    percents = [int(text.split()[0]) for text in figures if text != "\u2013"]
    assert percents == sorted(percents)
    assert figures[-1] == "\u2013"
    assert heading.get_attribute("aria-sort") == "ascending"
    heading.locator("button").click()
    assert page.locator(".results tbody td:nth-child(4)").first.inner_text().split()[0] == "340"
    assert page.locator(".results tbody td:nth-child(4)").last.inner_text() == "\u2013"


def test_the_table_and_the_charts_filter_together(show: Callable[..., Any]) -> None:
    """By words and by verdict; a filter that leaves nothing says so and can be taken back."""
    page = show(varied())
    page.fill("input[type=search]", "decode batch")
    assert page.locator(".results tbody tr").count() == 3
    until(page, "document.querySelector('.chart').data.filter((trace) => trace.customdata).length === 1")
    page.click(".tile.bogus")
    assert page.locator(".empty").inner_text().startswith("No result matches")
    page.click("text=Clear filters")
    assert page.locator(".results tbody tr").count() == 17
    page.click(".tile.bogus")
    assert verdict_names(page) == ["bogus"]
    assert page.get_attribute(".tile.bogus", "aria-pressed") == "true"


def test_a_link_opens_its_result(open_page: Callable[..., Any], tmp_path: Path) -> None:
    """The address names the result that is open, so that it can be sent to somebody."""
    path = tmp_path / "report.html"
    path.write_text(html_page(varied()), encoding="utf-8")
    page = open_page(path, fragment="#result-6")
    page.wait_for_selector("dialog[open]")
    assert "test_long_context" in page.inner_text("dialog h2")


def hostile() -> dict[str, Any]:
    """A document in which every text that a stranger may choose is an attempt to get out of the page."""
    device = {**CPU, "name": HOSTILE, "notes": [HOSTILE], "id": f"cpu{HOSTILE}"}
    bad = result(
        0.7, device=device, label=HOSTILE, notes=[HOSTILE], findings=[finding(HOSTILE, "note", HOSTILE, HOSTILE)]
    )
    bad["findings"][0]["figures"] = {HOSTILE: HOSTILE, "constructor": 1.0, "__proto__": 2.0}
    bad["traffic"] = {**bad["traffic"], "dtype": HOSTILE, "extra": [[HOSTILE, 1e9]], "extra_bytes_per_pass": 1e9}
    bad["ceiling"] = {**bad["ceiling"], "bandwidth_source": HOSTILE, "bound": HOSTILE}
    bad["samples"][3] = {**bad["samples"][3], "conditions": {"throttled": [HOSTILE]}}
    bad["standing"] = "constructor"
    known = measured(
        device, probe={**probe(), "kernels": {"read": HOSTILE}, "notes": [HOSTILE], "peak_flops_per_s": {HOSTILE: 1e14}}
    )
    long = f"tests/test_x.py::test[{'a<b>' * 2500}]"
    return document(
        a_test(HOSTILE, bad, message=HOSTILE, worker=HOSTILE),
        a_test("__proto__", result(0.5, "failed", device=device), reason="\ud800 alone"),
        a_test(long, result(0.6, device=device), reason=HOSTILE),
        devices=[known],
        libraries={HOSTILE: HOSTILE},
        run={"version": HOSTILE, "arguments": [HOSTILE], "commit": {"id": HOSTILE}, "started_at": HOSTILE},
    )


def test_no_text_becomes_markup_or_runs(show: Callable[..., Any]) -> None:
    """Quotes, tags, NUL, lone surrogates, emoji, 10 kB, text that turns the direction: shown as text, with escapes."""
    page = show(hostile())
    for number in range(3):
        page.locator(".results a.open").nth(number).click()
        page.wait_for_selector("dialog[open]")
        for summary in page.locator("dialog summary").all():
            summary.click()
        page.keyboard.press("Escape")
    page.locator(".chart").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    for summary in page.locator("main > section > summary, main details > summary").all():
        summary.click()
    assert page.evaluate("window.hacked") is None
    # The page's own: the data, the chart library unpacked from the page, and what drives it.
    assert page.evaluate("document.querySelectorAll('script').length") == 3
    assert page.locator("img, iframe, object, embed, form, base, link").count() == 0
    text = page.inner_text("body")
    assert "</script><script>window.hacked = 1</script><img src=x" in text
    assert "\\x00\\u202eabc \U0001f600" in text
    assert not re.search("[\x00\u202e]", page.evaluate("document.body.textContent"))


@pytest.fixture
def outside() -> Iterator[tuple[str, list[str]]]:
    """A server on this machine that stands for the network: its address, and what it was asked for."""
    asked: list[str] = []

    class Listener(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Note it, and answer."""
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing on stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Listener) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/", asked
        server.shutdown()
        thread.join()


def test_what_is_inserted_all_the_same_does_not_run(
    browser: Any, tmp_path: Path, outside: tuple[str, list[str]]
) -> None:
    """The policy is the second wall: neither an inline script, nor a handler, nor eval, nor any request."""
    address, asked = outside
    plain, path = tmp_path / "plain.html", tmp_path / "report.html"
    plain.write_text("<!DOCTYPE html><title>without a policy</title><body>", encoding="utf-8")
    path.write_text(html_page(varied()), encoding="utf-8")
    page = browser.new_page()
    page.goto(plain.as_uri())
    page.evaluate(CHECKS)
    page.evaluate(f"tryEverything({json.dumps(address)})")
    assert page.evaluate("window.hacked") == 3
    assert set(asked) == {"/picture.png", "/data.json"}
    asked.clear()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=yes]", state="attached")
    page.evaluate(CHECKS)
    page.evaluate(f"tryEverything({json.dumps(address)})")
    assert page.evaluate("window.hacked") is None
    assert {"script-src-elem", "script-src-attr", "img-src", "connect-src"} <= set(page.evaluate("window.refused"))
    assert asked == []
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_stands_out_from_its_ground(show: Callable[..., Any], scheme: str) -> None:
    """At least 4.5:1, and 3:1 for large text, in both themes, on the page and in the panel (WCAG 2.2, AA)."""
    page = show(varied(), color_scheme=scheme)
    page.evaluate(CHECKS)
    assert page.evaluate("faintTexts(document.body)") == []
    page.click("text=test_three_times_faster")
    page.wait_for_selector("dialog[open]")
    assert page.evaluate("faintTexts(document.querySelector('dialog'))") == []


def test_a_change_of_theme_reaches_the_charts(show: Callable[..., Any]) -> None:
    """The page follows the system while it is open."""
    page = show(varied(), color_scheme="light")
    read = "document.querySelector('.chart')._fullLayout.xaxis.gridcolor"
    light = page.evaluate(read)
    page.emulate_media(color_scheme="dark")
    until(page, f"{read} !== {json.dumps(light)}")


def test_everything_can_be_reached_and_told_by_keys(show: Callable[..., Any]) -> None:
    """Tab goes through all controls, each with a visible focus and a name."""
    page = show(varied())
    page.evaluate(CHECKS)
    assert page.evaluate("namelessControls()") == []
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        tag, outline = page.evaluate("focused()")
        if tag.startswith("BODY"):
            break
        assert outline != "none", tag
        seen.append(tag)
    words = " ".join(seen)
    for part in ("A.skip", "BUTTON.tile", "DIV.chart", "SELECT.", "INPUT.", "BUTTON.", "A.open", "SUMMARY."):
        assert part in words


def test_nothing_moves_for_those_who_asked_for_that(show: Callable[..., Any]) -> None:
    """prefers-reduced-motion: no transition and no animation on anything."""
    page = show(varied(), reduced_motion="reduce")
    moving = page.evaluate(
        "[...document.querySelectorAll('#page *')].filter((one) => !one.closest('.chart') && (parseFloat("
        "getComputedStyle(one).transitionDuration) > 0 || getComputedStyle(one).animationName !== 'none')).length"
    )
    assert moving == 0


@pytest.mark.parametrize("width", [360, 400, 768])
def test_a_narrow_screen_needs_no_scrolling_sideways(show: Callable[..., Any], width: int) -> None:
    """Neither the page nor the panel, with the longest of names."""
    page = show(varied(), viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.click("text=test_three_times_faster")
    page.wait_for_selector("dialog[open]")
    assert page.evaluate(
        "(() => { const one = document.querySelector('dialog'); return one.scrollWidth <= one.clientWidth; })()"
    )


def test_two_thousand_tests_can_be_used(show: Callable[..., Any]) -> None:
    """All of them are points; a hundred are rows until more are asked for; words still find one."""
    page = show(many(2000))
    assert points(page, 0) == 2000
    assert page.locator(".results tbody tr").count() == 100
    page.fill("input[type=search]", "model-1234")
    assert page.locator(".results tbody tr").count() == 1
    until(page, "document.querySelector('.chart').data.filter((trace) => trace.customdata).length === 1")
    page.fill("input[type=search]", "")
    page.click("text=Show all 2,000")
    assert page.locator(".results tbody tr").count() == 2000


def test_one_test_is_enough(show: Callable[..., Any]) -> None:
    """One point has a roof around it, one result a table."""
    page = show(document(a_test("test_a.py::test_one", result())))
    assert page.locator("h1").inner_text() == "The one test passed"
    assert points(page, 0) == 1
    low, high = page.evaluate("document.querySelector('.chart')._fullLayout.xaxis.range")
    assert high - low > 1


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (document(), "The file holds no results"),
        (document(a_test("a::b", mode="off", verdict="not measured", outcome="passed")), "--roofline=off"),
        (document(a_test("a::b", result()), end=None), "did not come to its end"),
        (document(a_test("a::b", result(device=CPU, read=2e10)), devices=[]), "There is no probe of this device"),
        (document(a_test("a::b", result(ceiling=None, traffic=None))), "No test has a place on the roofline"),
    ],
    ids=["nothing", "off", "cut off", "no probe", "no bytes"],
)
def test_what_is_missing_is_said(show: Callable[..., Any], found: dict[str, Any], words: str) -> None:
    """A page without charts or results says why, and complains of nothing."""
    page = show(found)
    assert words in page.inner_text("body")


def test_the_charts_are_tables_too(show: Callable[..., Any]) -> None:
    """Every point and every size of the sweep, for those who cannot see a chart."""
    found = varied()
    page = show(found)
    sweep = found["devices"][0]["probe"]["sweep"]
    for name, count in (("Points as a table", points(page, 0)), ("Sweep as a table", len(sweep))):
        page.click(f"text={name}")
        rows = page.locator(f"table:has(caption:text('{name}')) tbody tr")
        rows.first.wait_for()  # it is filled when it opens, a moment behind the click
        assert rows.count() == count


def test_without_scripts_there_is_a_table(browser: Any, tmp_path: Path) -> None:
    """As in viewers of CI artifacts: verdicts, tests, fractions and reasons, the gravest first."""
    path = tmp_path / "report.html"
    path.write_text(html_page(varied()), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.locator("noscript tr, tr").count() >= 17
    assert "missing synchronization" in page.locator("tbody tr").first.inner_text()
    context.close()


def test_figures_are_those_of_the_other_reports(show: Callable[..., Any]) -> None:
    """The page rounds as `units` does: the same value reads the same in terminal and browser."""
    from pytest_roofline.units import format_bytes, format_fraction, format_rate, format_seconds

    values = [0.0123, 0.41, 0.996, 1.0, 3.4, 9.996, 12.34, 99.96, 470.4, 999.6, 1204.0, 3.35e12, 16.06e9, 1.2e-3, 48e-3]
    rows = [
        a_test(f"a::{number}", result(tokens_per_s=value, step_s=value, fraction=value))
        for number, value in enumerate(values)
    ]
    for row, value in zip(rows, values, strict=True):
        row["results"][0]["traffic"]["bytes_per_pass"] = value
    page = show(document(*rows))
    page.locator(".results th", has_text="Test").locator("button").click()
    cells = [
        row.replace("\xa0", " ").replace("\u00b5s", "us") for row in page.locator(".results tbody tr").all_inner_texts()
    ]
    for value, cell in zip(values, cells, strict=True):
        wanted = [format_fraction(value), format_rate(value), format_seconds(value)]
        if value >= 1000:
            wanted.append(format_bytes(value))
        for text in wanted:
            assert text in cell, (value, json.dumps(cell))
