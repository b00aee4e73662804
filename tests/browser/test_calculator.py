"""The calculator in a real browser: through its own controls it says what ``roofline predict`` says."""

from __future__ import annotations

import json
import random
import shlex
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from calculator_oracle import (
    COMPARED,
    MODELS,
    arguments_of,
    disagreements,
    page_of,
    predicted,
    random_settings,
    table_in,
)

SETTINGS_EACH = 5
"""Of each of the thirteen models: 65 in all."""
FIELDS = ("ranks", "batch", "context", "prompt", "tokens_per_pass", "offload")

FIGURES = """() => Object.fromEntries([...document.querySelectorAll("[data-figure]")].map(
    (output) => [output.dataset.figure, output.dataset.value]))"""

# WCAG 2.1: relative luminance, and the contrast of a text with what is behind it.
CONTRASTS = """() => {
    const parsed = (color) => color.match(/[\\d.]+/g).map(Number);
    const luminance = (color) => parsed(color).slice(0, 3).map((part) => part / 255)
        .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
        .reduce((total, part, index) => total + part * [0.2126, 0.7152, 0.0722][index], 0);
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const color = getComputedStyle(at).backgroundColor;
            if ((parsed(color)[3] ?? 1) > 0.99) return color;
        }
        return "rgb(255, 255, 255)";
    };
    const found = [];
    for (const element of document.querySelectorAll("body *")) {
        const isText = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        const box = element.getBoundingClientRect();
        if (!isText || element.closest(".unseen, script, option, .skip, noscript") || box.width < 2) continue;
        const style = getComputedStyle(element);
        const color = element instanceof SVGElement ? style.fill : style.color;
        const [light, dark] = [luminance(color), luminance(behind(element))].sort((one, other) => other - one);
        found.push([(light + 0.05) / (dark + 0.05), element.outerHTML.slice(0, 100)]);
    }
    return found;
}"""


def ask(page: Any, settings: Mapping[str, Any], table: Mapping[str, Any]) -> None:
    """Set every control of the page, as a person does."""
    for key in ("device", "weights", "kv"):
        if page.locator(f"#{key}").is_enabled():
            page.select_option(f"#{key}", value=settings[key])
    # The share first: while it is 0, the way of reading is no question.
    for key in reversed(FIELDS):
        page.fill(f"#{key}", str(settings[key]))
    if page.locator("#is_overlapped").is_enabled():
        page.set_checked("#is_overlapped", settings["is_overlapped"])


def shown_by(page: Any) -> dict[str, Any]:
    """The figures on the page, each as exact as the page has it."""
    found: dict[str, Any] = {}
    for key, text in page.evaluate(FIGURES).items():
        try:
            found[key] = json.loads(text)
        except json.JSONDecodeError:
            found[key] = text
    return found


def command_of(page: Any) -> list[str]:
    """The arguments of ``roofline predict`` that the page offers to copy."""
    words = shlex.split(page.inner_text("#command"))
    assert words[:2] == ["roofline", "predict"]
    return words[2:]


def is_same_question(page: Any, settings: Mapping[str, Any]) -> list[str]:
    """What the page shows and not what the command that it offers says."""
    shown, said = shown_by(page), predicted(command_of(page))
    said |= {"expected_low": said["expected_tokens_per_s"][0], "expected_high": said["expected_tokens_per_s"][1]}
    stated = {"batch": "batch", "context": "context", "ranks": "ranks", "tokens_per_pass": "tokens_per_pass"}
    wrong = [f"{key}: {said[name]}" for key, name in stated.items() if said[name] != settings[key]]
    keys = [key for key in (*COMPARED, "expected_low", "expected_high") if key in shown]
    assert len(keys) > 15
    return wrong + disagreements(shown, said, tuple(keys))


@pytest.mark.parametrize("name", MODELS)
def test_the_page_says_what_predict_says(name: str, open_page: Callable[..., Any], tmp_path: Path) -> None:
    """At random settings, set by its controls, each figure is that of the command it offers, to 1e-9."""
    file = tmp_path / "page.html"
    table = table_in(page_of(arguments_of(name, tmp_path), file))
    page = open_page(file)
    wrong = {}
    for settings in islice(random_settings(table, random.Random(f"browser {name}")), SETTINGS_EACH):
        ask(page, settings, table)
        differing = is_same_question(page, settings)
        if differing:
            wrong[json.dumps(settings)] = differing
    assert wrong == {}


@pytest.fixture
def page(open_page: Callable[..., Any], tmp_path: Path) -> Any:
    """Llama 3.1 8B on an H100."""
    file = tmp_path / "page.html"
    page_of(["llama-3.1-8b", "--device", "h100-sxm", "--prompt", "1000"], file)
    return open_page(file)


def test_sliders_and_keys_move_the_figures(page: Any) -> None:
    """A slider and its field say the same; the arrow keys walk it; a screen reader hears the number and its unit."""
    page.locator("#batch-slider").fill("3")
    assert page.input_value("#batch") == "4"
    page.locator("#batch-slider").press("ArrowRight")
    assert page.input_value("#batch") == "6"
    assert page.get_attribute("#batch-slider", "aria-valuetext") == "6 sequences"
    page.fill("#context", "32K")
    page.locator("#context").press("Tab")
    assert page.input_value("#context") == "32,768"
    assert is_same_question(page, {"batch": 6, "context": 32768, "ranks": 1, "tokens_per_pass": 1}) == []


def test_the_dot_walks_the_roof(page: Any) -> None:
    """With the batch it moves right and up, then along the top; a click on another batch's dot asks for that one."""
    places = []
    for batch in (1, 32, 512, 4096):
        page.fill("#batch", str(batch))
        places.append([float(page.get_attribute("svg .dot", key)) for key in ("cx", "cy")])
    assert [x for x, _ in places] == sorted(x for x, _ in places)
    assert places[0][1] > places[1][1] > places[2][1]
    assert places[2][1] == pytest.approx(places[3][1], abs=2)
    assert page.inner_text("#bound") == "Compute-bound"
    page.locator("circle.step[data-batch='16']").click()
    assert page.input_value("#batch") == "16"


def test_a_link_keeps_the_settings(page: Any, open_page: Callable[..., Any], tmp_path: Path) -> None:
    """What was changed stands in the fragment, and opens the same; what the page does not have is named."""
    page.select_option("#device", value="rtx-4090")
    page.select_option("#weights", value="q4_k_m")
    page.fill("#batch", "12")
    fragment = "#" + page.url.partition("#")[2]
    assert fragment == "#weights=q4_k_m&device=rtx-4090&batch=12"
    other = open_page(tmp_path / "page.html", fragment=fragment)
    assert shown_by(other) == shown_by(page)
    assert command_of(other) == command_of(page)
    other.evaluate("location.hash = '#batch=7&device=none&colour=red'")
    other.locator("#message", has_text="device=none, colour=red").wait_for()
    assert other.input_value("#batch") == "7"
    other.click("#reset")
    assert other.input_value("#batch") == "1"
    assert "#" not in other.url


def test_what_cannot_be_is_said_at_once(page: Any) -> None:
    """A field that holds no such number is marked and explained; the figures stay those of the last one."""
    before = shown_by(page)
    for text in ("", "0", "-4", "2.5", "9e9", "many"):
        page.fill("#batch", text)
        assert page.get_attribute("#batch", "aria-invalid") == "true"
        assert "Batch: a whole number from 1 to 1,048,576 is needed" in page.inner_text("#message")
    assert shown_by(page) == before
    page.fill("#batch", "2")
    assert page.locator("#message").is_hidden()


def test_what_no_device_can_do(page: Any) -> None:
    """Weights on the host of a device whose path to it is not known: said, and the old figures are greyed."""
    page.select_option("#device", value="m4-max-40")
    page.fill("#offload", "0.5")
    assert "The path from the host to" in page.inner_text("#message")
    page.fill("#offload", "0")
    assert page.locator("#message").is_hidden()


def test_the_result_is_spoken(page: Any) -> None:
    """After a change one sentence is put where screen readers listen; every control has a name."""
    page.fill("#batch", "100")
    page.locator("#live", has_text="batch 100").wait_for(state="attached")
    assert "tokens per second" in page.inner_text("#live")
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("input, select, button")].filter((control) =>
            !control.labels?.length && !control.getAttribute("aria-label") && !control.textContent.trim()
        ).map((control) => control.outerHTML)"""
    )
    assert unnamed == []


def test_the_command_and_the_link_are_copied(page: Any) -> None:
    """The buttons put on the clipboard what they say they do."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.fill("#batch", "9")
    page.click("#copy-command")
    page.locator("#copy-command", has_text="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.inner_text("#command")
    page.click("#copy-link")
    page.locator("#copy-link", has_text="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").endswith("#batch=9")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_it_can_be_read(scheme: str, width: int, open_page: Callable[..., Any], tmp_path: Path) -> None:
    """Every text has a contrast of 4.5 with what is behind it, in light and dark; nothing is wider than the window."""
    file = tmp_path / "page.html"
    page_of(["llama-3.1-70b", "--device", "h100-sxm", "--context", "8000"], file)
    page = open_page(file, color_scheme=scheme, viewport={"width": width, "height": 900})
    low = [(round(contrast, 2), text) for contrast, text in page.evaluate(CONTRASTS) if contrast < 4.5]
    assert low == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert "Does not fit" in page.inner_text("#fits")


def test_hostile_names_do_nothing(open_page: Callable[..., Any], tmp_path: Path) -> None:
    """A model's name is shown as text; the fixture would hear of anything that ran."""
    from model_files import GgufWriter, llama_tensors, llama_values

    name = "</script><img src=x onerror=alert(1)><svg onload=alert(2)>"
    model = tmp_path / "m.gguf"
    model.write_bytes(GgufWriter().file(llama_values(general__name=name), llama_tensors()))
    file = tmp_path / "page.html"
    page_of([str(model), "--device", "l4"], file)
    page = open_page(file)
    assert page.inner_text("h1").startswith(name[:40])
    assert page.locator("img").count() == 0
    assert is_same_question(page, {"batch": 1, "context": 0, "ranks": 1, "tokens_per_pass": 1}) == []
