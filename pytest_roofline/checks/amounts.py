"""Bytes and tokens: does what was declared agree with what was seen?"""

from __future__ import annotations

from pytest_roofline.checks.claimed import Window
from pytest_roofline.checks.evidence import Evidence, Finding
from pytest_roofline.traffic import Traffic, is_blind, moved_bytes
from pytest_roofline.units import format_bytes, format_ratio, format_seconds

BYTES_TOLERANCE = 0.10
TOKENS_TOLERANCE = 0.02
MISSING_BYTES_SHARE = 0.02
SPILL_TOLERANCE = 0.01
"""Of all bytes: by so much may a declaration and a trace differ before the place of the bytes is in question."""


def bytes_disagree(evidence: Evidence) -> Finding | None:
    """More bytes declared than a closed trace saw is bogus; less is a note, for nobody gains from it."""
    declared, traced = evidence.declared, evidence.traced
    if declared is None or traced is None or not traced.is_closed:
        return None
    claimed, seen = declared.bytes_per_pass, max(traced.bytes_per_pass, traced.least_bytes_per_pass)
    if claimed <= 0:
        return None
    moved = moved_bytes(traced)
    figures = {
        "declared_bytes_per_pass": claimed,
        "traced_bytes_per_pass": seen,
        "traced_weight_bytes_per_pass": traced.weight_bytes_per_pass,
        "traced_kv_bytes_per_pass": traced.kv_bytes_per_pass,
        "traced_written_bytes_per_pass": traced.written_bytes_per_pass,
        "traced_extra_bytes_per_pass": traced.extra_bytes_per_pass,
    }
    if is_blind(traced, declared):
        return Finding(
            check="bytes-disagree",
            severity="note",
            message=(
                f"{format_bytes(claimed)} per pass declared, and the trace saw next to nothing "
                f"({format_bytes(moved)}): the work is done where it cannot look, so the declaration stands unchecked"
            ),
            figures=figures,
        )
    # What lies elsewhere may be read where no trace of this device looks.
    spilled = evidence.traffic.spilled_bytes_per_pass if evidence.traffic is not None else 0.0
    if min(claimed, declared.least_bytes_per_pass) - spilled > moved * (1 + BYTES_TOLERANCE):
        return Finding(
            check="bytes-disagree",
            severity="bogus",
            message=(
                f"{format_bytes(claimed)} per pass declared, {format_bytes(moved)} read and written: "
                f"{_too_many(claimed, evidence)}\n"
                f"  the trace accounts for every output ({_parts(traced)})"
            ),
            figures=figures,
            remedy="declare the bytes of one pass, or pass model= and let the trace count them",
        )
    if claimed - spilled > seen * (1 + BYTES_TOLERANCE):
        # These bytes did move, so nobody invented them; but a better implementation would not move them.
        return Finding(
            check="bytes-disagree",
            severity="note",
            message=(
                f"{format_bytes(claimed)} per pass declared, {format_bytes(seen)} of it compulsory: "
                f"{_beyond(traced)}, which the fraction counts as useful work"
            ),
            figures=figures,
            remedy="declare only the bytes that a pass must move, or pass model= and let the trace count them",
        )
    if seen > claimed * (1 + MISSING_BYTES_SHARE):
        return Finding(
            check="bytes-disagree",
            severity="note",
            message=(
                f"{format_bytes(claimed)} per pass declared, {format_bytes(seen)} read and written "
                f"({format_ratio(seen / claimed)}): {_too_few(claimed, traced)}; the fraction is taken from what was "
                "declared, so it is too low"
            ),
            figures=figures,
            remedy="declare the missing bytes, or pass model= and let the trace count them",
        )
    return None


def spill_disagrees(evidence: Evidence) -> Finding | None:
    """More declared as spilled than a closed trace leaves room for: the floor of such a pass would be too high.

    Not an accusation: weights that another thread fetched ahead are read from the device's memory, too.
    """
    traced, traffic = evidence.traced, evidence.traffic
    if traced is None or traffic is None or not traced.is_closed or not traffic.spilled_bytes_per_pass:
        return None
    seen, said = traced.resident_bytes_per_pass, traffic.resident_bytes_per_pass
    # A link is so much slower than a memory that a tenth of the bytes may be nine tenths of the time.
    if seen <= said + BYTES_TOLERANCE * traffic.spilled_bytes_per_pass + SPILL_TOLERANCE * traffic.bytes_per_pass:
        return None
    return Finding(
        check="bytes-disagree",
        severity="inconclusive",
        message=(
            f"{format_bytes(traffic.spilled_bytes_per_pass)} per pass said to lie outside of the device's memory, but "
            f"{format_bytes(seen)} of {format_bytes(traffic.bytes_per_pass)} were read in it"
        ),
        figures={"spilled_bytes_per_pass": traffic.spilled_bytes_per_pass, "traced_resident_bytes_per_pass": seen},
        remedy="drop offload=: a trace sees what lies with the host; or allow it where weights are fetched ahead",
    )


def _parts(traced: Traffic) -> str:
    parts = [("weights", traced.weight_bytes_per_pass or 0.0), ("KV cache", traced.kv_bytes_per_pass)]
    parts.append(("written", traced.written_bytes_per_pass))
    rest = traced.bytes_per_pass - sum(value for _, value in parts)
    parts.append(("other reads", rest))
    if traced.extra:
        parts.append((traced.extra[0][0], traced.extra_bytes_per_pass))
    parts.append(("read again", traced.repeated_bytes_per_pass))
    shown = [f"{name} {format_bytes(value)}" for name, value in parts if value > 0.005 * traced.bytes_per_pass]
    return ", ".join(shown)


def _beyond(traced: Traffic) -> str:
    """What moved beyond the compulsory bytes, by its largest part."""
    if traced.repeated_bytes_per_pass > traced.extra_bytes_per_pass:
        return f"{format_bytes(traced.repeated_bytes_per_pass)} are read again within the pass"
    if traced.extra_bytes_per_pass > 0:
        name = traced.extra[0][0] if traced.extra else "extra traffic"
        return f"{format_bytes(traced.extra_bytes_per_pass)} are {name}"
    return "the rest is an expectation that this pass did not meet"


def _too_many(claimed: float, evidence: Evidence) -> str:
    traced = evidence.traced
    ratio = claimed / traced.bytes_per_pass if traced and traced.bytes_per_pass else float("inf")
    if evidence.batch > 1 and 0.9 * evidence.batch <= ratio <= 1.1 * evidence.batch:
        return f"the bytes of one pass were multiplied by the batch ({evidence.batch})"
    if 1.9 <= ratio <= 2.1:
        return "every byte was counted twice"
    return "bytes that are resident but not read (an embedding table, experts not hit, a cache's capacity) were counted"


def _too_few(claimed: float, traced: Traffic) -> str:
    missing = traced.bytes_per_pass - claimed
    near = 0.2 * missing
    if traced.kv_bytes_per_pass and abs(traced.kv_bytes_per_pass - missing) <= near:
        return f"the KV cache ({format_bytes(traced.kv_bytes_per_pass)} per pass) was forgotten"
    if traced.written_bytes_per_pass and abs(traced.written_bytes_per_pass - missing) <= near:
        return (
            f"the {format_bytes(traced.written_bytes_per_pass)} that are written were forgotten "
            "(a copy of n bytes reads n and writes n)"
        )
    return "part of the traffic is missing"


def tokens_disagree(evidence: Evidence) -> Finding | None:
    """More tokens claimed than ids were returned, or than the passes that were watched can have produced."""
    claimed = evidence.tokens_claimed
    if claimed is None:
        return None
    if evidence.ids_seen is not None and claimed > evidence.ids_seen * (1 + TOKENS_TOLERANCE):
        return Finding(
            check="tokens-disagree",
            severity="bogus",
            message=(
                f"{claimed:g} tokens claimed, {evidence.ids_seen} ids returned "
                f"({format_ratio(claimed / evidence.ids_seen) if evidence.ids_seen else 'none'}): "
                "the prompt, padding, or a requested length was counted"
            ),
            figures={"claimed_tokens": claimed, "ids": evidence.ids_seen},
            remedy="count the ids that this window generated, without prompt and padding",
        )
    window = evidence.window
    if window is None or not (window.are_passes_watched or window.passes_behind):
        return None
    if not window.are_passes_watched:
        return _none_inside(evidence, window, claimed)
    possible = window.passes * evidence.batch * evidence.tokens_per_pass / evidence.least_share
    if claimed <= possible * (1 + TOKENS_TOLERANCE):
        return None
    return Finding(
        check="tokens-disagree",
        severity="inconclusive",
        message=(
            f"{claimed:g} tokens claimed, but {window.passes:g} passes x batch {evidence.batch} x "
            f"{evidence.tokens_per_pass:g} tokens per pass are {possible:g}: a prompt or padding was "
            f"counted, or a pass emits more than was declared{_behind(window)}"
        ),
        figures={"claimed_tokens": claimed, "possible_tokens": possible, "passes": window.passes},
        remedy="claim the ids of this window alone, and declare batch= and tokens_per_pass= if a pass emits more",
    )


def _none_inside(evidence: Evidence, window: Window, claimed: float) -> Finding | None:
    """The watched step ran behind the window alone. What ran inside may be work that is not watched."""
    needed = claimed * evidence.least_share / (evidence.batch * evidence.tokens_per_pass)
    if window.passes_behind < needed * (1 - TOKENS_TOLERANCE):
        return None  # a check or two, of whatever was timed
    where = f" at {window.stop_where}" if window.stop_where else ""
    return Finding(
        check="tokens-disagree",
        severity="inconclusive",
        message=(
            f"{claimed:g} tokens claimed for {format_seconds(window.closed_s)}, in which none of the watched passes "
            f"began: {window.passes_behind} of them began after the clock was stopped{where}: a generator or a future "
            "that was made, and consumed later"
        ),
        figures={"claimed_tokens": claimed, "passes": 0, "passes_behind": window.passes_behind},
        remedy="consume what runs the passes before the clock is stopped, or watch the step that is timed",
    )


def _behind(window: Window) -> str:
    count = window.passes_behind
    return f" ({count} watched passes began after the clock was stopped)" if count else ""


def ids_without_passes(evidence: Evidence) -> Finding | None:
    """More ids than the passes of the model can have yielded.

    That alone convicts nobody, for an engine behind `generate` may run where its passes are not seen (a captured graph,
    another library). Ids that are the same for every prompt, or passes that only a new prompt needs, are a replay.
    """
    seen = evidence.generated
    if seen is None or seen.possible_tokens is None or seen.tokens <= seen.possible_tokens:
        return None
    figures = {
        "tokens": seen.tokens,
        "possible_tokens": seen.possible_tokens,
        "passes": seen.passes,
        "replay": seen.replay,
        "prompts": seen.prompts,
    }
    first = (
        f"{seen.tokens} new ids were returned, and the {seen.passes} passes of the model that ran can have yielded "
        f"{seen.possible_tokens}"
    )
    if seen.replay in ("by-prompt", "same-ids"):
        found = (
            "another prompt of the same shape runs its passes, this one does not"
            if seen.replay == "by-prompt"
            else f"{seen.prompts} other prompts of the same shape gave the same ids"
        )
        return Finding(
            check="tokens-disagree",
            severity="bogus",
            message=(
                f"{first}: the ids are remembered, not generated\n"
                f"  found: {found}\n"
                f"  expected: a position of a pass for every new id\n"
                "  likely: a result that generate keeps and returns again"
            ),
            figures=figures,
            remedy="run the model on every call; a cache of answers is no decode speed",
        )
    return Finding(
        check="tokens-disagree",
        severity="inconclusive",
        message=f"{first}: they were computed where this tool cannot see passes, so there is no time of a pass",
        figures=figures,
        remedy="measure the engine's own step with roofline.decode, or the whole with roofline.audit",
    )
