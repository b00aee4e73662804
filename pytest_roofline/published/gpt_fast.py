"""gpt-fast: what generate.py prints, saved in a file.

Read as pytorch-labs/gpt-fast (at 0055c42) prints it: ``Time for inference 1: 2.05 sec total, 97.66 tokens/sec`` for
each sample and ``Average tokens/sec: 97.66`` behind them. The seconds hold the prompt's pass too. Its ``Bandwidth
achieved`` multiplies by all parameters, looked-up tables included, and is not taken. What is printed in other words is
refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pytest_roofline.published.document import Document
from pytest_roofline.published.entry import LARGEST
from pytest_roofline.published.reported import Reported, exactly
from pytest_roofline.roofline import Interval

NAME = "gpt-fast"
KEYS = ("Time for inference", "Average tokens/sec", "Bandwidth achieved", "Memory used")
_SAMPLE = re.compile(r"^Time for inference \d+: [\d.]+ sec total, ([\d.]+) tokens/sec\s*$", re.MULTILINE)
_AVERAGE = re.compile(r"^Average tokens/sec: ([\d.]+)\s*$", re.MULTILINE)
_ACCEPTED = re.compile(r"^Mean Accepted: ([\d.]+)\s*$", re.MULTILINE)


def recognises(document: Document) -> bool:
    """Whether there is a sample's line."""
    return document.kind == "text" and _SAMPLE.search(document.text) is not None


def read(document: Document) -> Iterator[Reported]:
    """The average rate, with its samples as what it lies between."""
    averages = _numbers(_AVERAGE, document)
    samples = _numbers(_SAMPLE, document)
    if len(averages) != 1:
        raise document.fail(f"{len(averages)} lines 'Average tokens/sec': one run, printed to its end, is needed")
    accepted = _numbers(_ACCEPTED, document)
    yield Reported(
        tool=NAME,
        label="Average tokens/sec",
        where=document.file,
        metric="output",
        tokens_per_s=averages[0],
        noise=Interval(low=min(samples), high=max(samples)),
        recomputed_tokens_per_s=sum(samples) / len(samples),
        batch=exactly(1.0),
        batch_source="gpt-fast generates one sequence",
        tokens_per_pass=1.0 + accepted[0] if accepted else None,
        words="gpt-fast" + (", speculative" if accepted else ""),
    )


def _numbers(pattern: re.Pattern[str], document: Document) -> list[float]:
    found = []
    for text in pattern.findall(document.text):
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 < value < LARGEST and pattern is not _ACCEPTED:
            raise document.fail(f"{text[:30]!r}: a positive number of tokens/sec is needed")
        found.append(value)
    return found
