"""One small config of every family of attention models and of every wrapper, with the figures that are right for it.

The figures in golden_families.jsonl are those of transformers' own classes, counted on the meta device; where torch is
installed they are counted again and compared. Everywhere else they hold the readers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in Path(__file__).with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()
]
"""``config`` (the keys of a config.json), ``parameters``, ``streamed_parameters`` and ``kv_elements_per_token``; of a
wrapper ``idle_parameters`` in place of the last."""
ATTENTION = [row for row in ROWS if "kv_elements_per_token" in row]
WRAPPERS = [row for row in ROWS if "idle_parameters" in row]


def named(row: dict[str, Any]) -> str:
    """An id: the family."""
    return str(row["config"]["model_type"])
