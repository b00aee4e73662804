"""Where a recipe runs: a fresh fake device, a model on it and the instrument, all drawn from one seed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Literal

from pytest_roofline.audit import Audit
from pytest_roofline.backends.fake import FakeBackend, FakeEvent, FakeModel, gaussian
from pytest_roofline.checks import CHECKS, Check
from pytest_roofline.instrument import Instrument
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings, parse_budget

Size = Literal["small", "large"]
SIZES: tuple[Size, ...] = ("small", "large")
CACHE_BYTES = 40e6
MAX_TIME_S = 2.0
"""Virtual seconds of one measurement; more would only make the corpus slower."""


class Scene:
    """A device of 0.5 to 4 TB/s with 1 % of jitter; a model of 1 or 6 GB that reaches 65 to 90 % of it.

    `passes` is how many passes a loop of the recipe runs: 24 to 40, or 120 to 200.
    """

    def __init__(
        self,
        seed: str,
        size: Size,
        *,
        figures: Mapping[str, Any],
        model: Mapping[str, Any],
        at_least: float | None,
        checks: tuple[Check, ...] = CHECKS,
    ) -> None:
        self.random = random = Random(f"{seed}/{size}")
        self.size = size
        self.is_large = size == "large"
        self.rate = random.uniform(0.5e12, 4e12)
        self.efficiency = random.uniform(0.65, 0.9)
        self.weight_bytes = (6e9 if self.is_large else 1e9) * random.uniform(0.8, 1.25)
        self.passes = random.randint(120, 200) if self.is_large else random.randint(24, 40)
        device: dict[str, Any] = {
            "read_bytes_per_s": self.rate,
            "cache_bytes": CACHE_BYTES,
            "peak_flops_per_s": 400 * self.rate,
            "memory_bytes": 80e9,
            "noise": gaussian(0.01),
            "launch_s": random.uniform(2e-6, 8e-6),
            "seed": random.randrange(1 << 30),
        }
        device.update(figures)
        kind = device.pop("backend", FakeBackend)
        self.backend: FakeBackend = kind(**device)
        drawn = {"weight_bytes": self.weight_bytes, "efficiency": self.efficiency, "layers": 2}
        self.model = FakeModel(self.backend, **{**drawn, **model})
        self.weight_bytes = self.model.weight_bytes
        budget = None if at_least is None else parse_budget(at_least, "corpus")
        settings = Settings(at_least=budget, max_time_s=MAX_TIME_S)
        self.roofline = Instrument(Session(added_backends=[self.backend]), settings, checks=checks)

    # -- what most programs do ----------------------------------------------------------------------------------

    def step(self) -> Any:
        """One pass of the model."""
        return self.model.step()

    def loop(self, passes: int | None = None, step: Callable[[], Any] | None = None) -> Any:
        """So many passes, queued; the last output."""
        output = None
        for _ in range(self.passes if passes is None else passes):
            output = (step or self.model.step)()
        return output

    def timed(self, passes: int | None = None, step: Callable[[], Any] | None = None) -> float:
        """Seconds that a host clock shows for passes that were drained before it was stopped."""
        start = time.perf_counter()
        self.loop(passes, step)
        self.backend.synchronize()
        return time.perf_counter() - start

    def events(self, work: Callable[[], object]) -> tuple[FakeEvent, FakeEvent]:
        """Two events of the default stream around some work, the second one waited for."""
        first, last = self.backend.event(), self.backend.event()
        first.record()
        work()
        last.record()
        last.synchronize()
        return first, last

    def audit(self, **arguments: Any) -> Audit:
        """An audit that knows the bytes of the model's pass; ``traffic=None`` knows none."""
        return self.roofline.audit(**{"traffic": self.model.traffic, **arguments})

    def decode(self, step: Callable[..., Any] | None = None, **arguments: Any) -> None:
        """Decode with the model's own step, traced, unless told otherwise."""
        if "model" not in arguments and "traffic" not in arguments:
            arguments["model"] = self.model
        self.roofline.decode(step or self.model.step, **{"reset": self.model.reset, **arguments})

    def launch(self, read_bytes: float, **arguments: Any) -> Any:
        """One kernel at the model's efficiency that reads what nothing else touches."""
        return self.backend.launch(read_bytes=read_bytes, **{"efficiency": self.efficiency, **arguments})
