"""The calculator: one page that predicts as ``roofline predict`` does, offline, for every device, format and workload.

The page divides by itself, by the arithmetic of `prediction` written once more in JavaScript
(``page/calculator_arithmetic.js``), and a test holds the two together. What is no closed form (the bytes of a mix of
formats, the caches of each kind of layer, which units a device multiplies in) is a table that Python fills in here; so
are the shares and limits, so that no figure is written twice.

Nothing in the page is loaded from elsewhere, and its Content-Security-Policy runs the scripts of these files alone,
by their hashes, whatever a model is called. The same input gives the same page, byte for byte.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_roofline.architecture import CacheLayers
from pytest_roofline.errors import RooflineUsageError, one_line
from pytest_roofline.inventory import Inventory
from pytest_roofline.machine import Machine
from pytest_roofline.prediction import EXCHANGED_BYTES, EXPECTED_SHARES
from pytest_roofline.whole_file import write_whole
from pytest_roofline.workload import MOST_TOKENS_PER_PASS, Workload

PAGE = Path(__file__).with_name("page")
STYLES = ("calculator.css",)
SCRIPTS = ("calculator_arithmetic.js", "calculator_words.js", "calculator_picture.js", "calculator.js")
_PART = re.compile(r"<!-- part: (\w+) -->")
_CACHE_KEYS = (
    *("name", "layers", "elements_per_token", "kv_heads", "window", "chunk", "fixed_tokens", "state_elements"),
    *("state_bytes_per_element", "flops_per_position", "needs_image", "selected", "bytes_per_element"),
)
_MODEL_KEYS = (
    *("model", "source", "parameters", "active_parameters", "flops_per_token", "head_flops", "image_flops"),
    *("plain_bytes_per_element", "hidden", "reductions", "max_context", "is_rule"),
)
_STORE_KEYS = (
    *("weights", "compute_dtype", "dense_bytes", "image_bytes", "lookup_bytes", "prediction_bytes", "total_bytes"),
)
_MACHINE_KEYS = (
    *("name", "bandwidth_bytes_per_s", "memory_bytes", "most_memory_bytes", "is_unified_memory", "link_bytes_per_s"),
    *("spill_bytes_per_s", "bandwidth_source", "memory_source", "link_source", "spill_source"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One entry of a list on the page."""

    key: str
    """What stands in a link to the page: a name that `arguments` take, or empty for the default."""
    label: str
    group: str
    arguments: tuple[str, ...] = ()
    """What says the same to ``roofline predict``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The model, and the draft where there is one, with the weights in one format."""

    choice: Choice
    inventory: Inventory
    draft: Inventory | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KvCache:
    """One format of the KV cache: of the model's and of the draft's."""

    choice: Choice
    name: str
    bytes_per_element: float
    draft_bytes_per_element: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One device, alone."""

    choice: Choice
    machine: Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Calculation:
    """All that one page can be asked. Of each list, the keys differ, and one is that of the start."""

    arguments: tuple[str, ...]
    """What says the model, the draft and whatever no control changes to ``roofline predict``."""
    weights: Sequence[Weights]
    kv: Sequence[KvCache]
    devices: Sequence[Card]
    start: Workload
    start_keys: tuple[str, str, str]
    """Of weights, KV cache and device."""
    ranks: int = 1
    link_latency_s: float = 0.0
    version: str = ""


def write_calculator(calculation: Calculation, file: str) -> None:
    """Write the page. Raises RooflineUsageError where the file cannot be written, or its folder is not there."""
    folder = os.path.dirname(file)
    if folder and not os.path.lexists(folder):
        raise RooflineUsageError(
            f"--html: {one_line(file, 256)}: cannot be written: there is no folder {one_line(folder, 256)}"
        )
    try:
        write_whole(file, calculator_page(calculation).encode())
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise RooflineUsageError(f"--html: {one_line(file, 256)}: cannot be written: {reason}") from error


def calculator_page(calculation: Calculation) -> str:
    """The whole page as text."""
    styles = "".join(_asset(name) for name in STYLES)
    scripts = [_asset(name) for name in SCRIPTS]
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_hash, scripts))}; style-src {_hash(styles)}; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        "title": html.escape(one_line(calculation.start.inventory.model)),
        "styles": f"<style>{styles}</style>",
        "data": f'<script type="application/json" id="data">{_json(_table(calculation))}</script>',
        "scripts": "".join(f"<script>{text}</script>" for text in scripts),
    }
    return _PART.sub(lambda found: parts[found[1]], _asset("calculator.html"))


def _asset(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(value: object) -> str:
    """JSON that can stand in a page: no text in it ends or begins an element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _table(calculation: Calculation) -> dict[str, Any]:
    start = calculation.start
    draft = start.draft
    words: dict[str, int] = {}
    dtypes = sorted({stored.inventory.compute_dtype for stored in calculation.weights})
    weights_key, kv_key, device_key = calculation.start_keys
    return {
        "version": calculation.version,
        "expected_shares": EXPECTED_SHARES,
        "exchanged_bytes": EXCHANGED_BYTES,
        "most_tokens_per_pass": MOST_TOKENS_PER_PASS,
        "link_latency_s": calculation.link_latency_s,
        "arguments": _quoted(calculation.arguments),
        "model": _model(start.inventory),
        "weights": [
            {
                **_choice(stored.choice),
                **_store(stored.inventory),
                "draft": None if stored.draft is None else _store(stored.draft),
            }
            for stored in calculation.weights
        ],
        "kv": [
            {
                **_choice(cache.choice),
                "name": cache.name,
                "bytes_per_element": cache.bytes_per_element,
                "draft_bytes_per_element": cache.draft_bytes_per_element,
            }
            for cache in calculation.kv
        ],
        "devices": [{**_choice(card.choice), **_device(card.machine, dtypes, words)} for card in calculation.devices],
        "draft": None
        if draft is None
        else {"model": _model(draft.inventory), "tokens": draft.tokens, "is_own": draft.is_own},
        "start": {
            "weights": weights_key,
            "kv": kv_key,
            "device": device_key,
            "batch": start.batch,
            "context": start.context,
            "prompt": start.prompt or 0,
            "tokens_per_pass": start.tokens_per_pass,
            "ranks": calculation.ranks,
            "offload": start.offload,
            "is_overlapped": start.is_overlapped,
        },
        "words": list(words),
    }


def _quoted(arguments: Iterable[str]) -> list[str]:
    return list(map(shlex.quote, arguments))


def _choice(choice: Choice) -> dict[str, Any]:
    return {
        "key": choice.key,
        "label": one_line(choice.label),
        "group": choice.group,
        "arguments": _quoted(choice.arguments),
    }


def _model(inventory: Inventory) -> dict[str, Any]:
    """What no choice of formats changes."""
    figures = {key: getattr(inventory, key) for key in _MODEL_KEYS}
    return {
        **figures,
        "model": one_line(inventory.model),
        "source": one_line(inventory.source),
        "notes": [one_line(note, 400) for note in inventory.notes],
        "caches": [_cache(cache) for cache in inventory.caches],
    }


def _cache(cache: CacheLayers) -> dict[str, Any]:
    return {key: getattr(cache, key) for key in _CACHE_KEYS}


def _store(inventory: Inventory) -> dict[str, Any]:
    """What a choice of formats changes: bytes, and what products run in."""
    figures = {key: getattr(inventory, key) for key in _STORE_KEYS}
    return {**figures, "experts": [[group.weight_bytes, group.share] for group in inventory.experts]}


def _device(machine: Machine, dtypes: Iterable[str], words: dict[str, int]) -> dict[str, Any]:
    """A device's figures, and the peak for each dtype that weights may compute in; texts stand in `words` once each."""

    def said(text: str | None) -> int | None:
        return None if text is None else words.setdefault(text, len(words))

    found: dict[str, Any] = {key: getattr(machine, key) for key in _MACHINE_KEYS}
    found.update({key: said(found[key]) for key in found if key.endswith("_source")})
    peaks = {dtype: machine.peak(dtype) for dtype in dtypes}
    given = machine.given_peak_flops_per_s
    return {
        **found,
        "name": one_line(machine.name),
        "peaks": {dtype: [peak[0], said(peak[1]), peak[2]] for dtype, peak in peaks.items() if peak is not None},
        "dense_peaks": dict(machine.peak_flops_per_s) if given is None else {"given": given},
        "largest_peak_flops_per_s": machine.largest_peak_flops_per_s,
    }
