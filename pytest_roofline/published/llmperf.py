"""LLMPerf: the ``..._summary.json`` of token_benchmark_ray.py.

Read as ray-project/llmperf writes it (results version 2023-08-31): nested keys are joined by underscores. Its tokens
are those of a tokenizer that splits the text again; its inter-token latency has the first token's time inside, and is
not taken for the pace of decode.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_roofline.published.document import Document
from pytest_roofline.published.entry import Entry
from pytest_roofline.published.reported import Reported
from pytest_roofline.published.servers import ServedRun

NAME = "llmperf"
KEYS = ("num_concurrent_requests", "mean_input_tokens", "results_mean_output_throughput_token_per_s", "version")
COUNT_SLACK = 1.5
"""One tokenizer's count of a text may differ from another's by as much."""
_RATE = "results_mean_output_throughput_token_per_s"


def recognises(document: Document) -> bool:
    """Whether it has the rate over all requests under its joined name."""
    return _RATE in document.top


def read(document: Document) -> Iterator[Reported]:
    """The rate of the run."""
    entry = Entry(where=document.file, values=document.top)
    failed = entry.count("results_number_errors", 0)
    yield from ServedRun(
        tool=NAME,
        where=document.file,
        output_tokens_per_s=entry.positive(_RATE),
        output_key="mean_output_throughput_token_per_s",
        prompt_tokens=entry.positive_or_none("results_number_input_tokens_mean"),
        output_tokens=entry.positive_or_none("results_number_output_tokens_mean"),
        requests=entry.positive_or_none("results_num_completed_requests"),
        failed=failed,
        most_at_once=entry.positive_or_none("num_concurrent_requests"),
        model=entry.text("model"),
        count_slack=COUNT_SLACK,
        words="server",
        remarks=("tokens were counted by another tokenizer than the model's, perhaps",),
    ).reported()
