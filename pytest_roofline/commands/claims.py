"""What ``roofline check`` is asked to judge: a file of a tool, or figures, with what the command line says of them."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_roofline.commands.scenario import parsed_option, whole
from pytest_roofline.errors import RooflineUsageError

if TYPE_CHECKING:
    from pytest_roofline.published.reported import Reported

_SAME_COUNT = 0.05
"""Sequences at once that are so close to a whole number are that number: the figures are rounded."""


def claims_of(arguments: argparse.Namespace) -> list[Reported]:
    """Each figure of the file, or of the command line. RooflineUsageError where it is not one of both."""
    from pytest_roofline.published.registry import TOOLS, read_results

    files = [(None, arguments.file), *((tool, getattr(arguments, f"file_{tool}")) for tool in TOOLS)]
    given = [(tool, path) for tool, path in files if path is not None]
    has_figures = arguments.tokens_per_s is not None or arguments.tpot is not None
    if len(given) + has_figures != 1:
        raise RooflineUsageError(
            "one file of results (--llama-bench FILE, --file FILE ...) or figures (--tokens-per-s 93, --tpot 10.8ms)"
            + (": not several" if given else " are needed")
        )
    if arguments.columns is not None and (not given or given[0][0] != "csv"):
        raise RooflineUsageError("--columns goes with --csv FILE")
    found = read_results(given[0][1], given[0][0], columns=arguments.columns) if given else _figures(arguments)
    return [_completed(one, arguments) for one in found]


def _figures(arguments: argparse.Namespace) -> list[Reported]:
    """The figures of the command line: one sequence, unless both of them together say how many there were."""
    from pytest_roofline.published.reported import Reported, exactly
    from pytest_roofline.units import format_seconds, parse_number, parse_seconds

    rate = parsed_option(arguments, "tokens_per_s", parse_number)
    tpot_s = parsed_option(arguments, "tpot", parse_seconds)
    batch, source = exactly(1.0), "one sequence: no --batch is given"
    recomputed = None
    inferred: tuple[str, ...] = ()
    if arguments.batch is not None:
        batch, source = exactly(float(whole(arguments.batch, "--batch", least=1))), "--batch"
        recomputed = None if tpot_s is None else batch.high / tpot_s
    elif rate is not None and tpot_s is not None:
        at_once = rate * tpot_s
        near = max(1.0, round(at_once))
        at_once = near if abs(at_once - near) < _SAME_COUNT else at_once
        batch, source = exactly(max(1.0, at_once)), "tokens/s x time per token"
        inferred = (
            f"batch {batch.high:.4g} is inferred: {rate:.4g} tok/s x {format_seconds(tpot_s)} per token of one "
            "sequence; --batch states it",
        )
    from pytest_roofline.remarks import NO_CONTEXT

    shared: dict[str, Any] = {
        "tool": "figures",
        "where": "command line",
        "batch": batch,
        "batch_source": source,
        "context": 0.0 if arguments.context is None else None,
        "is_context_exact": True,
        "remarks": (*inferred, *((NO_CONTEXT,) if arguments.context is None and arguments.prompt is None else ())),
    }
    found = []
    if rate is not None:
        found.append(
            Reported(
                label="--tokens-per-s",
                metric="decode",
                tokens_per_s=rate,
                recomputed_tokens_per_s=recomputed,
                recomputed_tolerance=0.05,
                **shared,
            )
        )
    if tpot_s is not None:
        found.append(Reported(label="--tpot", metric="tpot", tokens_per_s=1.0 / tpot_s, **shared))
    return found


def _completed(reported: Reported, arguments: argparse.Namespace) -> Reported:
    """The same with what the command line says of it, in place of what its file leaves open."""
    from pytest_roofline.published.reported import exactly

    changes: dict[str, Any] = {"is_per_device": arguments.per_device and reported.tokens_per_s is not None}
    if arguments.batch is not None and reported.tool != "figures":
        batch, known = float(whole(arguments.batch, "--batch", least=1)), reported.batch
        if known is not None and known.low == known.high != batch:
            raise RooflineUsageError(
                f"{reported.where}: --batch {batch:g}: {reported.batch_source or 'its file'} says {known.high:g}"
            )
        changes |= {"batch": exactly(batch), "batch_source": "--batch"}
    prompt = reported.prompt_tokens
    generated = reported.generated_tokens
    if arguments.prompt is not None and prompt is None:
        prompt = changes["prompt_tokens"] = float(whole(arguments.prompt, "--prompt", least=1))
    if arguments.generated is not None and generated is None:
        generated = changes["generated_tokens"] = float(whole(arguments.generated, "--generated", least=1))
    if arguments.context is not None and not (reported.is_context_exact and reported.context is not None):
        changes |= {"context": float(whole(arguments.context, "--context", least=0)), "is_context_exact": True}
    elif prompt is not None and generated is not None and not reported.context:
        changes |= {"context": prompt + generated / 2, "is_context_exact": False}
    completed = replace(reported, **changes)
    return _output_share(completed) if completed.metric == "total" else completed


def _output_share(reported: Reported) -> Reported:
    """A rate that counts prompts, as the rate of generated tokens where both counts are known."""
    prompt, generated = reported.prompt_tokens, reported.generated_tokens
    if prompt is None or generated is None or reported.tokens_per_s is None:
        return reported
    share = generated / (prompt + generated)
    own = reported.recomputed_tokens_per_s
    remark = (
        f"{reported.tokens_per_s:,.4g} tok/s count prompts: {generated:,.0f} of {prompt + generated:,.0f} tokens of a "
        "request are generated"
    )
    return replace(
        reported,
        metric="output",
        is_prompt_excluded=True,
        tokens_per_s=reported.tokens_per_s * share,
        recomputed_tokens_per_s=None if own is None else own * share,
        remarks=(*reported.remarks, remark),
    )


def chosen(results: list[Reported], metric: str | None) -> list[Reported]:
    """Those of the metric; without one, all but rates that count prompts where their file has better ones."""
    if metric == "all":
        return results
    if metric is not None:
        found = [one for one in results if one.metric == metric or (metric == "total" and _is_total(one))]
        if not found:
            there = ", ".join(dict.fromkeys(one.metric for one in results))
            raise RooflineUsageError(f"--metric {metric}: there is no such figure; there are {there}")
        return found
    better = {one.where for one in results if one.metric in ("decode", "output", "tpot") and not _is_total(one)}
    return [one for one in results if not (_is_total(one) and one.where in better)]


def _is_total(reported: Reported) -> bool:
    return reported.metric == "total" or any("count prompts" in remark for remark in reported.remarks)
