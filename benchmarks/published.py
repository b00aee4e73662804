"""Published decode rates against this package's own arithmetic: every row from its names alone.

::

    python benchmarks/published.py [ROWS.yaml]

A file of rows has a list ``validation_rows`` (the shipped ``published.yaml`` shows the keys); without one the shipped
rows are taken. A row's own figures of bytes are never read: device, model and formats are looked up in the
catalogue, the rest is `pytest_roofline.prediction`. Prints the fraction computed, the one stated, and for rates above
a ceiling the causes that fit. Exit 1 if a usable row of one device is off by over 2 % or above 1.0, or if a flagged row
is above no ceiling, or its first cause is another than its flag says in words.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

# Found beside this file, installed or not.
from pytest_roofline.architecture import Architecture  # noqa: E402
from pytest_roofline.diagnosis import Cause, Claim, diagnose  # noqa: E402
from pytest_roofline.errors import RooflineError, RooflineUsageError  # noqa: E402
from pytest_roofline.formats import Format, Plan  # noqa: E402
from pytest_roofline.inventory import Inventory, inventory_of  # noqa: E402
from pytest_roofline.predict import Given, architecture_of, kv_named, machine_of, stored_as, weights_named  # noqa: E402
from pytest_roofline.prediction import Prediction, predict  # noqa: E402
from pytest_roofline.specs.catalogue import Catalogue  # noqa: E402
from pytest_roofline.workload import Workload  # noqa: E402

SHIPPED = Path(__file__).with_suffix(".yaml")
TOLERANCE = 0.02

# What publications call a format, the first that fits: (pattern, the format or mix, which matrices, why).
# Which: as the format has it; "every": the output projection is quantized as the rest is; "kept": it stays in 16 bits;
# "table": all but the table, which is Q8_0; "checkpoint": as the publisher's own checkpoint stores them.
FORMATS: tuple[tuple[str, str, str, str], ...] = (
    (r"MXFP4 experts.*16", "as stored", "checkpoint", "experts MXFP4, all other matrices in bf16"),
    (r"MXFP4 experts", "mxfp4_moe", "", "llama.cpp's file type: experts MXFP4, all other matrices Q8_0"),
    (r"QAT GGUF (Q\d_\d)", r"\1", "table", "ggml-org's QAT files keep the table that is tied to the head in Q8_0"),
    (r"GGUF (I?Q\d\w*|TQ\d\w*|B?F16|F32)", r"\1", "", "llama.cpp's file type: a mix by tensor"),
    (r"EXL([23]) ([\d.]+) bpw", r"exl\1-\2bpw", "", "the stated average, the head in 6 bits"),
    (r"q4f16_1", "q4f16_1", "", "MLC: groups of 32, table and head too"),
    (r"HQQ (\d).?bit g(\d+)", r"hqq-\1bit-g\2", "", "a scale and a zero of 16 bits per group"),
    (r"(?:QuIP#|QTIP) (\d).?bit", r"\1bpw", "kept", "so many bits per weight, the head in 16"),
    (r"(?:GPTQ|AWQ).*int8", "int8-g128", "", "a scale of 16 bits and a zero of 8 per 128"),
    (r"(?:GPTQ|AWQ).*g(32|64|128)\b", r"int4-g\1", "", "a scale of 16 bits and a zero of 4 per group"),
    (r"GPTQ|AWQ", "int4-g128", "", "the group that both use unless told otherwise"),
    (r"int4 g(32|64|128|256)\b", r"torchao-int4-g\1", "every", "gpt-fast quantizes every Linear; scale, zero in bf16"),
    (r"int8 rowwise", "int8-channel", "", "torchao on vLLM: a scale per output row"),
    (r"int8", "int8-channel", "every", "gpt-fast quantizes every Linear, the head too"),
    (r"FP8 block|128x128", "fp8-block", "", "a scale of 32 bits per 128 x 128"),
    (r"FP8 rowwise", "fp8-channel", "", "a scale per output row"),
    (r"MXFP8", "mxfp8", "", "a scale of 8 bits per 32"),
    (r"FP8", "fp8-tensor", "", "a scale per tensor, the head in 16 bits"),
    (r"(nvfp4|mxfp4|nf4)", r"\1", "", "by its name"),
    (r"bf16", "bf16", "", "plain"),
    (r"fp16|f16", "fp16", "", "plain"),
)
# What a flag says in words, and the cause that must be found first, from the figures alone: the first that fits.
FLAGS: tuple[tuple[str, str], ...] = (
    (r"^impossible\b", "impossible"),
    (r"uniform.routing", "uniform-routing"),
    (r"whole.file", "embedding-counted"),
    (r"KV cache (wrongly )?taken as 16", "kv-format"),
    (r"prompt tokens (are )?counted", "prompt-counted"),
    (r"batched aggregate|rate of a batch", "batch-aggregate"),
)
KV_FORMATS = ((r"FP8 KV", "fp8"), (r"q8_0 KV", "q8_0"), (r"q4_0 KV", "q4_0"), (r"", "bf16"))
_KV_WORDS = re.compile(r"[\w-]+ KV\b[^,;]*", re.IGNORECASE)
# Tokens that a publication generates per request, where its rows do not say so.
GENERATED: Mapping[str, int] = {
    "QWENDOC": 2048,  # "generate 2048 tokens", the rate being (prompt + generated) / time
}
_COUNTS = re.compile(r"(\d+) in / (\d+) out|\b(\d+)/(\d+)$")
_SPLIT = re.compile(r"layers split|pipeline", re.IGNORECASE)
_REMARK = re.compile(r"\s*\(.*\)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One published rate, by the names it was published with."""

    id: str
    hardware: str
    devices: int
    model: str
    quant: str
    batch: int
    avg_context: float
    engine: str
    measured_tok_s: float
    fraction: float | None
    """Of the ceiling, as stated beside the row."""
    source: str
    usable: str
    flag: str | None = None

    @property
    def is_split(self) -> bool:
        """Whether the devices hold layers each, and work one after the other."""
        return self.devices > 1 and _SPLIT.search(self.engine) is not None

    @property
    def is_judged(self) -> bool:
        """Usable, and of one device: what links and ranks cost is published nowhere."""
        return self.usable == "yes" and self.devices == 1 and self.flag is None and self.fraction is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A row recomputed."""

    row: Row
    prediction: Prediction
    causes: tuple[Cause, ...]

    @property
    def fraction(self) -> float:
        """Measured rate over the ceiling."""
        return self.row.measured_tok_s / self.prediction.ceiling_tokens_per_s

    @property
    def difference(self) -> float:
        """Relative, of the computed fraction from the stated one."""
        return self.fraction / self.row.fraction - 1 if self.row.fraction else math.nan

    @property
    def fault(self) -> str | None:
        """Why this row fails the run; None when it does not."""
        if self.row.flag is not None:
            return self._fault_of_flag(self.row.flag)
        if not self.row.is_judged:
            return None
        if self.fraction > 1:
            return "usable, and above the ceiling"
        return "off by over 2 %" if abs(self.difference) > TOLERANCE else None

    def _fault_of_flag(self, flag: str) -> str | None:
        expected = cause_of(flag)
        if expected is None:
            return "flagged in words of which FLAGS knows none"
        if not self.causes:
            return "flagged, and above no ceiling"
        first = self.causes[0].name
        return None if first == expected else f"flagged as {expected}, and {first} is found"


def read_rows(file: Path) -> list[Row]:
    """The rows of one file, other keys left out."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    document = yaml.load(file.read_text(encoding="utf-8"), Loader=loader)
    names = set(Row.__dataclass_fields__)
    return [Row(**{key: value for key, value in row.items() if key in names}) for row in document["validation_rows"]]


def cause_of(flag: str) -> str | None:
    """The name of the cause that a flag describes; None where FLAGS has no pattern for it."""
    return next((cause for pattern, cause in FLAGS if re.search(pattern, flag, re.IGNORECASE)), None)


def format_of(quant: str) -> tuple[str, str]:
    """The name of a format or mix, and which matrices it holds for, as FORMATS says."""
    weights = _KV_WORDS.sub("", quant)
    for pattern, name, scope, _ in FORMATS:
        found = re.search(pattern, weights, re.IGNORECASE)
        if found:
            return found.expand(name), scope
    raise RooflineUsageError(f"{quant!r}: no pattern of FORMATS fits")


def inventory_for(row: Row, architecture: Architecture, catalogue: Catalogue) -> tuple[Inventory, float]:
    """The model in the row's formats, and the bytes of its output projection."""
    name, scope = format_of(row.quant)
    plan: Plan
    if scope in ("every", "kept"):
        kept = () if scope == "every" else ("head", "embedding", "router")
        found = replace(weights_named(name, catalogue), kept_parts=kept)
        plan, compute_dtype = found.weight_bytes, found.compute_dtype
    else:
        stored = stored_as(architecture, None if scope == "checkpoint" else name, catalogue)
        plan, compute_dtype = stored.plan, stored.compute_dtype
    if scope == "table":
        plan = _with_table(plan, weights_named("q8_0", catalogue))

    kv = kv_named(next(name for pattern, name in KV_FORMATS if re.search(pattern, row.quant, re.I)), catalogue)
    inventory = inventory_of(
        architecture,
        plan,
        weights=name,
        kv=kv.id,
        kv_bytes_per_element=kv.bytes_per_element,
        compute_dtype=compute_dtype,
    )
    heads = [w for w in architecture.weights if w.use == "matrix" and w.part in ("head", "embedding")]
    return inventory, sum(plan(weight) for weight in heads)


def _with_table(plan: Plan, table: Format) -> Plan:
    return lambda weight: table.weight_bytes(weight) if weight.part == "embedding" else plan(weight)


def recompute(row: Row, catalogue: Catalogue) -> Outcome:
    """One row from its names. Layers split over devices work one after the other: the rate of one device."""
    machine = machine_of(row.hardware, Given(ranks=1 if row.is_split else row.devices), catalogue)
    if row.is_split and machine.memory_bytes is not None:
        machine = replace(machine, memory_bytes=machine.memory_bytes * row.devices)
    architecture = architecture_of(_REMARK.sub("", row.model), catalogue)
    inventory, head_bytes = inventory_for(row, architecture, catalogue)
    prediction = predict(machine, Workload(inventory=inventory, batch=row.batch, context=round(row.avg_context)))
    words = f"{row.engine}, {row.quant}"
    counts = _COUNTS.search(row.engine) or _COUNTS.search(row.quant)
    prompt, generated = (int(n) for n in counts.groups() if n) if counts else (None, GENERATED.get(row.source))
    claim = Claim(tokens_per_s=row.measured_tok_s, prompt_tokens=prompt, generated_tokens=generated, words=words)
    return Outcome(row=row, prediction=prediction, causes=diagnose(claim, prediction, head_bytes=head_bytes))


def table(outcomes: Iterable[Outcome]) -> Iterable[str]:
    """One line per row, and below a flagged one its causes."""
    yield f"{'row':<6}{'device':<20}{'model':<18}{'format':<28}{'computed':>9}{'stated':>8}{'differs':>9}  "
    for outcome in outcomes:
        row = outcome.row
        device = row.hardware if row.devices == 1 else f"{row.devices} x {row.hardware}"
        remarks = [outcome.fault or (row.usable if row.usable != "yes" else "")]
        if row.is_split:
            remarks.append("layers split: one device works at a time, and its rate is taken")
        remarks.append(", ".join(cause.name for cause in outcome.causes))
        yield (
            f"{row.id:<6}{device[:19]:<20}{row.model[:17]:<18}{row.quant[:27]:<28}{outcome.fraction:>9.3f}"
            f"{row.fraction or math.nan:>8.3f}{outcome.difference:>+9.1%}  {'; '.join(filter(None, remarks))}"
        )
        if row.flag is not None:
            yield f"      flagged: {row.flag}"
            yield from (f"      {cause.name}: {cause.message}" for cause in outcome.causes)


def summary(outcomes: list[Outcome]) -> str:
    """Counts."""
    judged = [outcome for outcome in outcomes if outcome.row.is_judged]
    flagged = [outcome for outcome in outcomes if outcome.row.flag is not None]
    shown = len(outcomes) - len(judged) - len(flagged)
    good = sum(outcome.fault is None for outcome in judged)
    explained = sum(outcome.fault is None for outcome in flagged)
    worst = max((abs(outcome.difference) for outcome in judged), default=0.0)
    return (
        f"{len(outcomes)} rows: {good} of {len(judged)} judged rows within 2 % and none of those above 1.0 (worst "
        f"{worst:.2%}); {explained} of {len(flagged)} flagged rows with the cause that they state; {shown} only shown"
    )


def main(arguments: list[str] | None = None) -> int:
    """Recompute, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rows", nargs="?", type=Path, default=SHIPPED, help="YAML with validation_rows")
    file = parser.parse_args(arguments).rows
    catalogue = Catalogue()
    outcomes, missing = [], []
    for row in read_rows(file):
        try:
            outcomes.append(recompute(row, catalogue))
        except RooflineError as error:
            missing.append(f"{row.id}: not computed: {str(error).splitlines()[0]}")
    for line in [*table(outcomes), *missing, summary(outcomes)]:
        print(line)
    if missing:
        print(f"{len(missing)} rows were not computed")
    return 1 if missing or any(outcome.fault for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
