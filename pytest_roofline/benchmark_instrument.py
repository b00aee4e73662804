"""The part of the `roofline` fixture that judges what pytest-benchmark timed: annotate."""

from __future__ import annotations

from typing import Any

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.instrument_part import InstrumentPart
from pytest_roofline.result import Result, unmeasured_result
from pytest_roofline.settings import positive_number, whole_number


class BenchmarkInstrument(InstrumentPart):
    """Judges benchmarks of another plugin."""

    def annotate(
        self,
        benchmark: Any,
        traffic: Any = None,
        *,
        model: Any = None,
        batch: int | None = None,
        context: int | None = None,
        tokens_per_pass: float = 1.0,
        passes_per_call: float = 1.0,
        device: str | None = None,
    ) -> Result:
        """Judge what pytest-benchmark's `benchmark` fixture has just timed, and put the figures into its columns.

        ``benchmark(step)``, then ``roofline.annotate(benchmark, model=model)``, right after it. The bytes of a pass are
        `traffic` (a Traffic, a config, file or name, or bytes) or those of `model`; a call of the function runs
        `passes_per_call` of them. The benchmark's time is a claim: faster than the device's limit is bogus. Into
        ``benchmark.extra_info`` go ``roofline_verdict``, ``roofline_fraction``, ``roofline_ceiling_bytes_per_s``,
        ``roofline_bytes_per_pass`` and more; of what is bogus or undecided the verdict and the reason alone. Not seen:
        whether its clock stopped before the device, which ``roofline.audit`` watches.
        """
        # A test that annotates nothing never needs the room.
        from pytest_roofline.annotation import Question, judge_benchmark, put, timed_by

        if (traffic is None) is (model is None):
            raise RooflineUsageError(
                "roofline.annotate needs the bytes of a pass, once: traffic= (or bytes per pass), or model="
            )
        source = model if traffic is None else traffic
        chosen, backend = self._placement.place(device, source)
        if self._settings.mode == "off":
            result = unmeasured_result("audit", str(getattr(benchmark, "name", "benchmark")), chosen, None)
            put(getattr(benchmark, "extra_info", {}), result)
            return self._keep(result)
        timed = timed_by(benchmark)
        counted = self.traffic(source, batch=batch, context=context)
        question = Question(
            traffic=counted,
            batch=whole_number("batch", batch, 1) or counted.batch or 1,
            tokens_per_pass=positive_number("tokens_per_pass", tokens_per_pass),
            passes_per_call=positive_number("passes_per_call", passes_per_call),
        )
        with self._session.lock(chosen):
            result = judge_benchmark(
                timed,
                question,
                bench=self._bench(chosen, backend),
                drains=lambda: self._session.backends.in_use(backend),
                settings=self._settings,
                checks=self._checks,
            )
        put(benchmark.extra_info, result)
        return self._keep(result)
