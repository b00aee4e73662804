"""Did the bytes of a pass have to come from memory at all, or was what lies there no data?

Pages that were never written are one page of zeros in cache; patterns are moved compressed on some devices. Of such
bytes nothing need come from memory, so the true fraction lies between what the rest makes of it and what was measured.
Alone they make no result bogus: they take the verdict away, unless they explain a rate that no memory reaches.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_roofline.checks.ceiling import faster_than_limit
from pytest_roofline.checks.evidence import Evidence, Finding, Severity
from pytest_roofline.units import format_bytes, format_bytes_per_s, format_fraction, format_ratio, format_seconds

NOTE_SHARE = 0.02
DECIDING_SHARE = 0.10
"""Without a budget: from a tenth of the pass on the figure is not that of a memory."""
ALL_SHARE = 0.98
EASY_PRODUCT_GAIN = 1.15
"""Matrix products of zeros or whole numbers flip fewer bits and draw less power: under a power cap they were measured
up to 15 % faster than the same products of random numbers."""

WRITE_REMEDY = (
    "write the weights before they are measured: load them, or fill them with random numbers (torch.randn, "
    "tensor.normal_()); torch.empty and numpy.zeros only reserve addresses"
)
RANDOM_REMEDY = "measure with random or trained weights: torch.randn, tensor.normal_(), or a checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spared:
    """Bytes of a pass that need not come from memory, and what is left of the fraction without them."""

    spared_bytes: float
    pass_bytes: float
    low: float | None
    high: float | None

    @property
    def share(self) -> float:
        return min(1.0, self.spared_bytes / self.pass_bytes) if self.pass_bytes > 0 else 0.0

    @property
    def parts(self) -> str:
        whole = format_bytes(self.pass_bytes)
        return f"all {whole}" if self.share >= ALL_SHARE else f"{format_bytes(self.spared_bytes)} of the {whole}"

    def figures(self, name: str) -> dict[str, object]:
        return {
            name: self.spared_bytes,
            "pass_bytes": self.pass_bytes,
            "share": self.share,
            "fraction_low": self.low,
            "fraction_high": self.high,
        }


def untouched_memory(evidence: Evidence) -> Finding | None:
    """A pass that a closed trace accounts for reads pages that nobody ever wrote."""
    survey, traced = evidence.survey, evidence.traced
    if survey is None or not survey.untouched_bytes or traced is None or not traced.is_closed:
        return None
    spared = _spared(evidence, survey.untouched_bytes, traced.footprint_bytes)
    if spared.share < NOTE_SHARE:
        return None
    cause = (
        f"{spared.parts} that a pass reads lie in pages that were never written, and those are all one page of zeros "
        "that stays in cache"
    )
    figures: dict[str, object] = {**spared.figures("untouched_bytes"), "pages_sampled": survey.sampled}
    return _finding(evidence, spared, "untouched-memory", cause, figures, WRITE_REMEDY)


def predictable_data(evidence: Evidence) -> Finding | None:
    """A pass on an accelerator reads one value or a plain sequence, which the device may move compressed."""
    survey, traced = evidence.survey, evidence.traced
    if survey is None or not survey.predictable_bytes or traced is None:
        return None
    footprints = [each.footprint_bytes for each in (traced, evidence.traffic) if each is not None]
    # An open trace saw a part of the pass only.
    spared = _spared(evidence, survey.predictable_bytes, max(footprints))
    if spared.share < NOTE_SHARE:
        return None
    held = survey.pattern or "a regular pattern"
    figures = {**spared.figures("predictable_bytes"), "blocks_sampled": survey.sampled, "pattern": held}
    if _is_compute_bound(evidence):
        return _easy_product(evidence, spared, held, figures)
    if not survey.may_compress:
        return Finding(
            check="predictable-data",
            severity="note",
            message=f"{spared.parts} that a pass reads hold {held}; this device moves them whole, so the rate stands",
            figures=figures,
            remedy=RANDOM_REMEDY,
        )
    cause = f"{spared.parts} that a pass reads hold {held}, of which a device that compresses its memory moves less"
    return _finding(evidence, spared, "predictable-data", cause, figures, RANDOM_REMEDY)


def _spared(evidence: Evidence, spared_bytes: float, pass_bytes: float) -> _Spared:
    """The fraction's interval when neither these bytes nor what the caches hold came from memory."""
    noise, traffic = evidence.fraction, evidence.traffic
    low = None
    if noise is not None and pass_bytes > 0:
        cached = evidence.knee_bytes / traffic.footprint_bytes if traffic and traffic.footprint_bytes > 0 else 0.0
        low = noise.low * max(0.0, 1 - cached - spared_bytes / pass_bytes)
    return _Spared(
        spared_bytes=min(spared_bytes, pass_bytes),
        pass_bytes=pass_bytes,
        low=low,
        high=noise.high if noise is not None else None,
    )


def _finding(
    evidence: Evidence, spared: _Spared, check: str, cause: str, figures: dict[str, object], remedy: str
) -> Finding:
    fast = faster_than_limit(evidence)
    if fast is not None and fast.severity == "bogus" and _explains(evidence, spared, fast):
        rate, limit, pass_s = (fast.figures[key] for key in ("bytes_per_s", "limit_bytes_per_s", "pass_s"))
        return Finding(
            check=check,
            severity="bogus",
            message=(
                f"{format_bytes_per_s(rate)} from memory, but this device cannot exceed {format_bytes_per_s(limit)} "
                f"({format_ratio(rate / limit)}): {cause}\n"
                f"  found: {format_bytes(spared.pass_bytes)} per pass, in {format_seconds(pass_s)}\n"
                f"  limit: {evidence.limit.source if evidence.limit else ''}"
            ),
            figures={**figures, "bytes_per_s": rate, "limit_bytes_per_s": limit, "pass_s": pass_s},
            remedy=remedy,
        )
    severity = _severity(evidence, spared)
    message = cause
    if severity == "inconclusive" and spared.low is not None and spared.high is not None:
        asked = f", the test asks for {format_fraction(evidence.at_least)}" if evidence.at_least is not None else ""
        message += (
            f": the fraction of the memory ceiling is between {format_fraction(spared.low)} and "
            f"{format_fraction(spared.high)}{asked}"
        )
    return Finding(check=check, severity=severity, message=message, figures=figures, remedy=remedy)


def _explains(evidence: Evidence, spared: _Spared, fast: Finding) -> bool:
    """Whether what is left would be within the limit: a small part explains no large excess."""
    left = float(fast.figures["bytes_per_s"]) * (1 - spared.share)
    return evidence.limit is not None and left <= evidence.limit.with_slack_bytes_per_s


def _severity(evidence: Evidence, spared: _Spared) -> Severity:
    noise, low = evidence.fraction, spared.low
    if noise is None or low is None or evidence.is_cache_hot or _is_compute_bound(evidence):
        return "note"
    if evidence.at_least is None and evidence.at_most is None:
        return "inconclusive" if spared.share >= DECIDING_SHARE else "note"
    if evidence.at_least is not None and noise.clears(evidence.at_least) is True and low < evidence.at_least:
        return "inconclusive"
    if evidence.at_most is not None and noise.low > evidence.at_most >= low:
        return "inconclusive"
    return "note"


def _easy_product(evidence: Evidence, spared: _Spared, held: str, figures: dict[str, object]) -> Finding:
    """Bound by arithmetic: such operands may be up to 15 % faster, and only where that decides is it in doubt."""
    noise, budget = evidence.fraction, evidence.at_least
    decides = (
        noise is not None
        and budget is not None
        and noise.clears(budget) is True
        and noise.low / EASY_PRODUCT_GAIN < budget
    )
    return Finding(
        check="predictable-data",
        severity="inconclusive" if decides else "note",
        message=(
            f"{spared.parts} that a pass reads hold {held}: products of such data draw less power, and where power is "
            f"the limit they run up to {format_fraction(EASY_PRODUCT_GAIN - 1)} faster than those of random data"
        ),
        figures=figures,
        remedy=RANDOM_REMEDY,
    )


def _is_compute_bound(evidence: Evidence) -> bool:
    return evidence.ceiling is not None and evidence.ceiling.bound == "compute"
