"""The roofline as a picture: what memory and compute allow by arithmetic intensity, and the workload's points.

The same input gives the same file, byte for byte: no dates, no random ids. Needs matplotlib (extra ``report``), and no
display.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_roofline.errors import MissingDependency, RooflineUsageError, one_line
from pytest_roofline.prediction import Prediction
from pytest_roofline.units import format_bytes_per_s, format_flops_per_s, format_rate

_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "pytest-roofline",
    "svg.fonttype": "none",  # text stays text: it can be searched, and does not depend on the renderer
    "font.size": 9.0,
}
_METADATA = {".svg": {"Date": None}, ".png": {"Software": None}}


def draw_roofline(points: Sequence[Prediction], over: str, file: str) -> None:
    """Write the picture into a ``.png`` or ``.svg`` file; `over` names what the points differ in.

    Raises MissingDependency without matplotlib, RooflineUsageError where the file cannot be written.
    """
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependency(
            "a picture needs matplotlib, which is not installed: pip install 'pytest-roofline[report]'"
        ) from error
    except ValueError as error:  # a backend in the environment, or a line of a matplotlibrc, that it does not know
        raise RooflineUsageError(
            f"matplotlib refuses its settings: {one_line(str(error))}; is MPLBACKEND right?"
        ) from error
    suffix = ".svg" if file.lower().endswith(".svg") else ".png"  # of ".png" alone, Path finds no suffix
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **_STYLE}):
        figure = Figure(figsize=(8.0, 5.0), dpi=120, layout="constrained")
        FigureCanvasAgg(figure)
        _draw(figure.add_subplot(), points, over)
        try:
            figure.savefig(file, format=suffix[1:], metadata=_METADATA[suffix])
        except OSError as error:
            raise RooflineUsageError(f"--picture: {file}: cannot be written: {error}") from error


def _draw(axes: Any, points: Sequence[Prediction], over: str) -> None:
    machine = points[0].machine
    bandwidth = machine.bandwidth_bytes_per_s
    peaks = _peaks(points[0])
    intensities = [point.arithmetic_intensity for point in points]
    ridges = [peak / bandwidth for _, peak in peaks]
    left, right = min([*intensities, *ridges]) / 4, max([*intensities, *ridges]) * 4
    end = max(ridges, default=right)
    axes.plot(
        [left, end],
        [left * bandwidth, end * bandwidth],
        color="black",
        label=f"memory {format_bytes_per_s(bandwidth)}",
    )
    for number, (dtype, peak) in enumerate(peaks):
        axes.plot(
            [peak / bandwidth, right],
            [peak, peak],
            color=f"C{number}",
            label=f"{dtype} {format_flops_per_s(peak)}, ridge {peak / bandwidth:.0f} FLOP/byte",
        )
    reached = [point.flops_per_pass / point.step_floor_s for point in points]
    axes.plot(intensities, reached, "o", color="crimson", label=f"ceiling of this workload, by {over}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(left, right)
    for point, x, y in _labelled(list(zip(points, intensities, reached, strict=True)), axes.get_ylim()):
        value = point.workload.batch if over == "batch" else point.workload.context
        axes.annotate(
            f"{over} {value:,}: {format_rate(point.ceiling_tokens_per_s)} tok/s",
            (x, y),
            xytext=(6, -9),
            textcoords="offset points",
            fontsize=7,
        )
    inventory = points[0].workload.inventory
    axes.set_xlabel("arithmetic intensity (FLOP/byte)")
    axes.set_ylabel("attainable rate (FLOP/s)")
    title = f"{one_line(inventory.model)} ({inventory.weights}) on {one_line(machine.name)}"
    axes.set_title(title, parse_math=False)  # what stands between two dollars is no formula here
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(loc="lower right", fontsize=8)


def _labelled(
    spots: list[tuple[Prediction, float, float]], limits: tuple[float, float]
) -> Iterator[tuple[Prediction, float, float]]:
    """The first, and every one that stands clear of the label before: a line of text is a 40th of the height."""
    line = (math.log10(limits[1]) - math.log10(limits[0])) / 40
    last: float | None = None
    for spot in spots:
        height = math.log10(spot[2])
        if last is None or abs(height - last) >= line:
            last = height
            yield spot


def _peaks(point: Prediction) -> list[tuple[str, float]]:
    """The peak that bounds this workload, and what other peaks the device has, the highest first."""
    if point.peak_flops_per_s is None or point.peak_dtype is None:
        return []
    peaks = {point.peak_dtype: point.peak_flops_per_s}
    if point.machine.given_peak_flops_per_s is None:
        peaks.update(point.machine.peak_flops_per_s)
    by_rate: dict[float, str] = {}
    for dtype, peak in peaks.items():
        by_rate[peak] = f"{by_rate[peak]}, {dtype}" if peak in by_rate else dtype
    return [(names, peak) for peak, names in sorted(by_rate.items(), reverse=True)]
