"""pytest-benchmark: ``--benchmark-json``.

Read as pytest-benchmark 5.3.1 writes it (plugin.py, stats.py): seconds of one call of a function. What a call does is
nowhere in the file: ``benchmark.extra_info["tokens"] = 128`` says how many tokens a sequence gets in it, and so does
``--generated 128``; ``extra_info["batch"]`` and ``["context"]`` are taken too. The plugin does not wait for a device.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_roofline.errors import one_line
from pytest_roofline.published.document import Document
from pytest_roofline.published.entry import Entry
from pytest_roofline.published.reported import Reported, exactly

NAME = "pytest-benchmark"
KEYS = ("machine_info", "commit_info", "benchmarks", "datetime", "version")


def recognises(document: Document) -> bool:
    """Whether the keys around the benchmarks are its own."""
    return isinstance(document.top.get("benchmarks"), list) and "machine_info" in document.top


def read(document: Document) -> Iterator[Reported]:
    """One result for each benchmark: the mean seconds of a call."""
    for number, value in enumerate(document.top["benchmarks"], 1):
        where = f"{document.file}, benchmark {number}"
        entry = Entry(where=where, values=value if isinstance(value, dict) else {})
        stats = entry.part("stats")
        info = entry.part("extra_info") if entry.values.get("extra_info") else Entry(where=where, values={})
        batch, context = info.positive_or_none("batch"), info.number("context")
        yield Reported(
            tool=NAME,
            label=one_line(entry.text("name") or f"benchmark {number}", 60),
            where=where,
            metric="latency",
            seconds=stats.positive("mean"),
            batch=None if batch is None else exactly(batch),
            batch_source="" if batch is None else "extra_info",
            context=context,
            is_context_exact=context is not None,
            generated_tokens=info.positive_or_none("tokens"),
            is_first_token_prefilled=False,
            words="pytest-benchmark",
            remarks=("a call of a device's framework ends before the device does, unless the function waits for it",),
        )
