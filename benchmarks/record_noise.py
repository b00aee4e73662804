"""Record how fast this machine reads memory, millisecond by millisecond: weather for the fake device to play again.

    python benchmarks/record_noise.py --seconds 60 --of "a quiet laptop" --out benchmarks/traces/quiet_laptop.json

A buffer past every cache is read round and round by matrix-vector products of 8 MiB each, by every core of the process
or as many threads as are asked for, as a decode step reads its weights. What is kept is the *slowness*: how many times
longer the machine took in each millisecond than in its best percent. Work is conserved: a product that took 7 ms is
seven slow milliseconds. Figures are rounded to 2 % and packed (see `pack`), so a minute takes some 40 kB. Needs torch.
Nothing else is recorded: no name of the machine, no process, no date.
"""

from __future__ import annotations

import argparse
import base64
import json
import math
import sys
import time
import zlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

BUFFER_BYTES = 2**29
CHUNK_BYTES = 2**23
PERIOD_S = 1e-3
STEPS_PER_OCTAVE = 32
"""A step is 2 %: finer than any two readings of one machine agree."""


def moments_of_reads(seconds: float, threads: int = 0) -> list[int]:
    """When each of the products ended, in nanoseconds."""
    import torch

    if threads:
        torch.set_num_threads(threads)
    width = 1024
    rows = CHUNK_BYTES // (4 * width)
    chunks = list(torch.randn(BUFFER_BYTES // CHUNK_BYTES, rows, width))
    vector, product = torch.randn(width), torch.empty(rows)
    clock = time.perf_counter_ns
    warm_until = clock() + 10**9
    while clock() < warm_until:
        for chunk in chunks:
            torch.mv(chunk, vector, out=product)
    moments = [clock()]
    end = moments[0] + int(seconds * 1e9)
    while moments[-1] < end:
        for chunk in chunks:
            torch.mv(chunk, vector, out=product)
            moments.append(clock())
    return moments


def slowness(moments: Sequence[int], period_s: float = PERIOD_S) -> list[float]:
    """Time that each period's work took, over what it takes at best (the fastest percent of the products)."""
    times = [after - before for before, after in pairwise(moments)]
    best = sorted(times)[len(times) // 100]
    factors: list[float] = []
    period = period_s * 1e9
    edge, done, index = moments[0] + period, 0.0, 0
    at = float(moments[0])
    while index < len(times):
        if moments[index + 1] <= edge:
            done += (moments[index + 1] - at) / times[index]
            at = float(moments[index + 1])
            index += 1
            continue
        done += (edge - at) / times[index]
        at = edge
        factors.append(period / (done * best))
        edge, done = edge + period, 0.0
    return factors


def pack(factors: Sequence[float]) -> str:
    """One byte per period, ``32 * log2(factor) + 16`` rounded, deflated, in base 85."""
    steps = bytes(min(255, max(0, round(STEPS_PER_OCTAVE * math.log2(factor)) + 16)) for factor in factors)
    return base64.b85encode(zlib.compress(steps, 9)).decode("ascii")


def unpack(text: str) -> list[float]:
    """The factors again, to 1 %."""
    return [2 ** ((step - 16) / STEPS_PER_OCTAVE) for step in zlib.decompress(base64.b85decode(text))]


def main() -> int:
    """Record and write."""
    parser = argparse.ArgumentParser(description="Record the noise of this machine's memory.")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--threads", type=int, default=0, help="of torch; its own choice if 0")
    parser.add_argument("--of", required=True, help="what kind of machine, in what state")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    moments = moments_of_reads(options.seconds, options.threads)
    factors = slowness(moments)
    rate = CHUNK_BYTES * (len(moments) - 1) / (moments[-1] - moments[0])
    record = {
        "schema": 1,
        "about": "Slowness of memory reads per period, relative to the fastest percent; packed by record_noise.py.",
        "of": options.of,
        "period_s": PERIOD_S,
        "mean_bytes_per_s": round(rate * 1e9),
        "factors": pack(factors),
    }
    options.out.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"{len(factors)} periods, mean {rate:.1f} GB/s, {options.out.stat().st_size} bytes in {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
