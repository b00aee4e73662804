"""Hold the probe against compiled code and frameworks: is it a ceiling that honest code does not beat?

    python benchmarks/probe.py [--rounds 3] [--turns 16] [--mib 512] [--without-torch]

Compiles `stream.c` with the local compiler. Each round makes a probe, then takes the kernels that the probe chose and
the honest ones in turns, launch by launch: the bandwidth of a shared machine moves within a second, and only what ran
just before and just after a launch can be compared with it. Two bars, on the medians of the ratios of neighbours:

    read of the probe / compiled read, each of them     at least 0.97
    any honest kernel / best pattern of the probe       at most 1.05

Exit 1 when a bar was missed.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

# Two OpenMP runtimes live in this process, the compiler's and torch's: neither shall spin while the other works.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pytest_roofline.backends.cpu import CpuBackend
from pytest_roofline.contest import enlist
from pytest_roofline.probe import Probe, probe_device
from pytest_roofline.protocol import Backend, Kernel
from pytest_roofline.units import format_bytes, format_seconds

READ_BAR = 0.97
HONEST_BAR = 1.05
REPEATS = 8

Run = Callable[[], float]
"""Runs once, and returns the bytes that it moved."""


def compiled_kernels(mib: int, threads: int, folder: Path) -> dict[str, Run]:
    """The kernels of `stream.c` by name."""
    compiler = os.environ.get("CC") or next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise SystemExit("benchmarks/probe.py needs a C compiler with OpenMP: install gcc, or name one in $CC")
    path = folder / "stream.so"
    source = Path(__file__).with_name("stream.c")
    flags = ["-O3", "-march=native", "-fopenmp", "-fPIC", "-shared"]
    built = subprocess.run(
        [compiler, *flags, str(source), "-o", str(path)], capture_output=True, text=True, check=False
    )
    if built.returncode:
        raise SystemExit(f"{compiler} {' '.join(flags)} failed:\n{built.stderr}")
    library = ctypes.CDLL(str(path))
    library.stream_open.argtypes = [ctypes.c_size_t, ctypes.c_int]
    library.stream_name.restype = ctypes.c_char_p
    library.stream_run.restype = ctypes.c_double
    count = library.stream_open(mib, threads)
    if not count:
        raise SystemExit(f"stream.c found no memory for {mib} MiB and half as much again")
    if library.stream_is_plain():
        print("this compiler offers no streaming stores here; the stream kernels are plain")
    names = [library.stream_name(number).decode() for number in range(count)]
    return {f"C {name}": lambda number=number: library.stream_run(number) for number, name in enumerate(names)}


def torch_kernels(mib: int) -> dict[str, Run]:
    """Honest kernels of torch by name."""
    import torch
    from torch.nn import functional

    size = mib << 20
    matrix = torch.randn(size // 2 // 4096 // 4, 4096)
    other = torch.randn_like(matrix)
    vector, row = torch.randn(4096), torch.randn(1, 4096)
    half, half_row = matrix.bfloat16(), row.bfloat16()
    flat, out = matrix.view(-1), torch.empty(matrix.shape[0])
    moved = float(size // 2)
    calls: dict[str, tuple[Callable[[], object], float]] = {
        "torch.mv": (lambda: torch.mv(matrix, vector, out=out), moved),
        "torch.dot": (lambda: torch.dot(flat, other.view(-1)), 2 * moved),
        "torch.sum": (lambda: matrix.sum(), moved),
        "torch.copy_": (lambda: other.copy_(matrix), 2 * moved),
        "F.linear fp32": (lambda: functional.linear(row, matrix), moved),
        "F.linear bf16": (lambda: functional.linear(half_row, half), moved / 2),
        "torch.fill_": (lambda: other.fill_(1.5), moved),
    }

    def run(call: Callable[[], object], moved: float) -> float:
        call()
        return moved

    return {name: (lambda call=call, moved=moved: run(call, moved)) for name, (call, moved) in calls.items()}


def rate(run: Run) -> float:
    """Bytes/s of one launch."""
    start = perf_counter()
    moved = run()
    return moved / (perf_counter() - start)


def chosen_kernels(probe: Probe, backends: list[Backend], mib: int) -> dict[str, Kernel]:
    """What the probe chose, by pattern, in the probe's own memory."""
    arena = probe.meter.arena() if probe.meter is not None else None
    found: dict[str, Kernel] = {}
    for pattern, name in probe.kernels.items():
        entrants, _ = enlist(backends, probe.device, pattern, mib << 20, only=[name], arena=arena)
        if entrants:
            found[pattern] = entrants[0].kernel
    return found


class Comparison:
    """Ratios of honest launches to those of the probe's kernels just before and after them, gathered over rounds."""

    def __init__(self, honest: dict[str, Run]) -> None:
        self.honest = honest
        self.rates: dict[str, list[float]] = {name: [] for name in honest}
        self.ratios: dict[tuple[str, str], list[float]] = {}
        """Honest / ours, by the honest kernel and our pattern."""
        self.figures: list[tuple[float, float]] = []
        """Of each probe: its read / the best compiled read, and the best honest rate / its best pattern; each the best
        of some launches just before and just after it. Not judged: the machine moves in the seconds of a probe."""

    def watch(self, measure: Callable[[], Probe]) -> Probe:
        """A probe, between the best rates of the honest kernels."""
        before = self._best()
        probe = measure()
        after = self._best()
        around = {name: (before[name] + after[name]) / 2 for name in before}
        read = max(rate for name, rate in around.items() if name.startswith("C read"))
        self.figures.append((probe.read_bytes_per_s / read, max(around.values()) / probe.best_bytes_per_s))
        return probe

    def _best(self) -> dict[str, float]:
        return {name: max(rate(run) for _ in range(REPEATS)) for name, run in self.honest.items()}

    def take_turns(self, probe: Probe, chosen: dict[str, Kernel], turns: int) -> None:
        """Launch by launch: ours, an honest one, ours, the next honest one ..."""
        for turn in range(turns):
            names = list(self.honest)[:: 1 if turn % 2 == 0 else -1]
            before = self._ours(chosen)
            for name in names:
                found = rate(self.honest[name])
                after = self._ours(chosen)
                self.rates[name].append(found)
                for pattern in chosen:
                    around = (before[pattern] + after[pattern]) / 2
                    self.ratios.setdefault((name, pattern), []).append(found / around)
                before = after

    @staticmethod
    def _ours(chosen: dict[str, Kernel]) -> dict[str, float]:
        rates = {}
        for pattern, kernel in chosen.items():
            start = perf_counter()
            kernel.launch()
            rates[pattern] = kernel.bytes_per_launch / (perf_counter() - start)
        return rates

    def of_read(self, name: str) -> list[float]:
        """Our read / this honest kernel, one ratio per turn."""
        return [1 / ratio for ratio in self.ratios[name, "read"]]

    def of_best(self, name: str) -> tuple[str, list[float]]:
        """The pattern of ours that comes out best beside this honest kernel, and honest / ours."""
        found = {pattern: ratios for (kernel, pattern), ratios in self.ratios.items() if kernel == name}
        best = min(found, key=lambda pattern: median(found[pattern]))
        return best, found[best]


def middle_half(ratios: list[float]) -> str:
    """The median and what lies around it."""
    low, _, high = quantiles(ratios, n=4)
    return f"{median(ratios):6.3f}   ({low:.3f} to {high:.3f})"


def report(probes: list[Probe], comparison: Comparison) -> int:
    """Print both tables; 1 when a bar was missed."""
    first = probes[0]
    print(f"\n{first.device.name}, {first.threads} threads, {len(probes)} probes")
    for pattern in ("read", "copy", "write", "triad", "best", "cache"):
        rates = sorted(getattr(probe, f"{pattern}_bytes_per_s") / 1e9 for probe in probes)
        names = sorted({probe.kernels[pattern] for probe in probes if pattern in probe.kernels})  # type: ignore[index]
        figures = f"median {median(rates):6.1f}  from {rates[0]:6.1f} to {rates[-1]:6.1f}"
        print(f"  {pattern:6} GB/s  {figures}  {', '.join(names)}")
    for number, probe in enumerate(probes, 1):
        trust = "trusted" if probe.is_trusted else "NOT TRUSTED"
        print(
            f"  probe {number}: {format_seconds(probe.elapsed_s)}, knee {format_bytes(probe.cache_knee_bytes)}, {trust}"
        )
        for note in probe.notes:
            print(f"     {note}")
    for text, column in (("read of the probe / best compiled read", 0), ("best honest kernel / best pattern", 1)):
        found = sorted(figures[column] for figures in comparison.figures)
        print(f"  best of {REPEATS}, seconds apart: {text} {median(found):.2f} ({found[0]:.2f} to {found[-1]:.2f})")

    missed = False
    print(f"\n{'read of the probe / ...':24} median   (middle half)   bar: at least {READ_BAR}")
    for name in [name for name in comparison.honest if name.startswith("C read")]:
        ratios = comparison.of_read(name)
        under = median(ratios) < READ_BAR
        missed |= under
        print(f"{name:24} {middle_half(ratios)}{'   MISSED' if under else ''}")
    print(f"\n{'honest / best pattern':18}  GB/s median   (middle half)   bar: at most {HONEST_BAR}")
    for name in comparison.honest:
        best, ratios = comparison.of_best(name)
        over = median(ratios) > HONEST_BAR
        missed |= over
        middle = median(comparison.rates[name]) / 1e9
        print(f"{name:18} {middle:5.1f} {middle_half(ratios)}  {best}{'   MISSED' if over else ''}")
    print("\nmissed" if missed else "\nboth bars hold")
    return 1 if missed else 0


def main() -> int:
    """Alternate, print the tables, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="probes (default: 3)")
    parser.add_argument("--turns", type=int, default=16, help="turns after each of them (default: 16)")
    parser.add_argument("--mib", type=int, default=512, help="working set of the honest kernels (default: 512)")
    parser.add_argument("--without-torch", action="store_true", help="neither torch kernels nor the torch backend")
    options = parser.parse_args()

    backends: list[Backend] = [CpuBackend()]
    device = backends[0].devices()[0]
    threads = backends[0].threads(device) or 1
    with tempfile.TemporaryDirectory() as folder:
        honest = compiled_kernels(options.mib // 4 * 4, threads, Path(folder))
        if not options.without_torch:
            try:
                from pytest_roofline.backends.torch import TorchBackend
            except ImportError:
                print("torch is not installed: compiled kernels only")
            else:
                honest |= torch_kernels(options.mib)
                backends.insert(0, TorchBackend())
        for run in honest.values():
            run()
        comparison, probes = Comparison(honest), []
        for _ in range(options.rounds):
            probes.append(comparison.watch(lambda: probe_device(device, backends)))
            comparison.take_turns(probes[-1], chosen_kernels(probes[-1], backends, options.mib), options.turns)
        return report(probes, comparison)


if __name__ == "__main__":
    sys.exit(main())
