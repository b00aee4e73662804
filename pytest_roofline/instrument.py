"""What the `roofline` fixture hands out: traffic, ceiling, decode, prefill, kernel, audit.

It finds the device and hands the work to a trial or a hearing. It knows neither pytest nor any framework.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from pytest_roofline.amounts import held_objects, traffic_of
from pytest_roofline.audit import Audit
from pytest_roofline.bench import Bench
from pytest_roofline.benchmark_instrument import BenchmarkInstrument
from pytest_roofline.checks import CHECKS, Check
from pytest_roofline.device import Device
from pytest_roofline.errors import BogusMeasurement, RooflineUsageError
from pytest_roofline.generation_instrument import GenerationInstrument
from pytest_roofline.hearing import open_audit
from pytest_roofline.paper import is_on_paper, paper_traffic
from pytest_roofline.placement import Placement
from pytest_roofline.protocol import Backend
from pytest_roofline.result import NOT_MEASURED, Result, unmeasured_result
from pytest_roofline.roofline import Ceiling
from pytest_roofline.server_instrument import ServerInstrument
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings, positive_seconds, whole_number
from pytest_roofline.sizing import larger_step
from pytest_roofline.stopping import checked_stopping
from pytest_roofline.traffic import Traffic, declared_traffic, offloaded
from pytest_roofline.trial import Job, Trial
from pytest_roofline.verdict import error_of


class Instrument(GenerationInstrument, ServerInstrument, BenchmarkInstrument):
    """Measures inference code against the roofline of the device it runs on.

    `decode`, `prefill` and `kernel` run and time a step; `audit` watches timing code of the test's own. Each raises
    BogusMeasurement for a figure that cannot be true; budgets are judged at the end of the test.
    """

    def __init__(
        self,
        session: Session,
        settings: Settings | None = None,
        *,
        on_result: Callable[[Result], None] | None = None,
        checks: Sequence[Check] = CHECKS,
    ) -> None:
        self._session = session
        self._settings = settings or Settings()
        self._placement = Placement(session, self._settings)
        self._on_result = on_result
        self._checks = checks
        self.results: list[Result] = []
        self.audits: list[Audit] = []

    def traffic(
        self,
        model: Any,
        *,
        batch: int | None = None,
        context: int | None = None,
        step: Callable[..., Any] | None = None,
        weights: str | None = None,
        kv: str | None = None,
    ) -> Traffic:
        """Bytes and FLOPs of one pass of `model`.

        `model` is a module, a Hugging Face config (dict, path, object), a GGUF or safetensors file, a model's name, a
        Traffic, or a plain number of bytes per pass. With `step` (runs one pass) the pass of a module is traced, which
        sees experts, caches and lookups; without it the module's weights are counted, and with a `context` its cache by
        its config. `weights` and `kv` name the formats of a model that is no module: ``"int4-g128"``, ``"q8_0"``.
        """
        told = self._session.told_of(model, batch=batch, context=context)
        return told or traffic_of(
            self._session.backends.loaded(),
            model,
            batch=batch,
            context=context,
            step=step,
            weights=weights,
            kv=kv,
            specs_paths=self._settings.specs,
        )

    def ceiling(
        self,
        traffic: Any,
        *,
        batch: int | None = None,
        context: int | None = None,
        tokens_per_pass: float = 1.0,
        device: str | None = None,
        weights: str | None = None,
        kv: str | None = None,
        offload: float | None = None,
        overlap: bool = False,
    ) -> Ceiling:
        """The most tokens per second that the probed device allows for this traffic or model.

        `offload` (0 to 1) is the share of the weights that lies in the host's memory: they come at the measured rate of
        the link, after the rest, or with `overlap` at the same time.
        With ``--roofline=off`` nothing is probed, and nothing bounds it: the ceiling is infinite.
        """
        counted = self.traffic(traffic, batch=batch, context=context, weights=weights, kv=kv)
        counted = counted if offload is None else offloaded(counted, offload)
        if self._settings.mode == "off":
            return Ceiling(
                traffic=counted,
                bandwidth_bytes_per_s=math.inf,
                bandwidth_source=NOT_MEASURED,
                batch=batch or counted.batch or 1,
                tokens_per_pass=tokens_per_pass,
            )
        chosen, backend = self._placement.place(device, traffic)
        return self._bench(chosen, backend, is_measuring=False).ceiling(
            counted, batch=batch or counted.batch or 1, tokens_per_pass=tokens_per_pass, is_overlapped=overlap
        )

    def decode(
        self,
        step: Callable[..., Any],
        *,
        model: Any = None,
        traffic: Any = None,
        batch: int | None = None,
        context: int | None = None,
        tokens_per_pass: float | Callable[[Any], float] = 1,
        reset: Callable[[], Any] | None = None,
        passes_per_reset: int | None = None,
        inputs: Any = None,
        reference: Callable[..., Any] | None = None,
        tamper: bool = False,
        larger: tuple[Callable[..., Any], Any] | None = None,
        offload: float | None = None,
        overlap: bool = False,
        label: str | None = None,
        max_time_s: float | None = None,
        stopping: str | None = None,
        device: str | None = None,
    ) -> Result:
        """Time `step`, which runs one decode pass and returns its output, and hold it against the ceiling.

        Give `model` (its bytes are traced) or `traffic` (a Traffic, a config, file or name, or bytes per pass).
        `context` is the length of the KV cache at the start; `reset` brings it back there, untimed.
        `passes_per_reset` is the room in the cache: no more passes run without a reset (64 in all where nothing is
        known). `inputs` gives fresh arguments per block; the output must follow them. Untimed: `reference` starts from
        the same arguments and state, and its outputs must agree as far as their dtype goes; `tamper` changes a row of
        a weight for one pass (it is put back bit for bit), and the output must change. `larger` is a pair: a step that
        moves at least 1.5 times the bytes (more layers, context, rows), and its traffic; its time must be possible too.
        `stopping` names what ends the measurement before `max_time_s`: ``"decided"``, ``"precision:0.02"``,
        ``"fixed:30"``. `offload` and `overlap`: see `ceiling`; without `offload`, what the trace sees in the host's
        memory is taken to come over the link.
        """
        if model is None and traffic is None:
            raise RooflineUsageError(
                "roofline.decode needs the bytes of a pass: model= (which is traced) or traffic= (bytes per pass)"
            )
        told = self._session.told_of(model if traffic is None else traffic, batch=batch, context=context)
        traffic = told or traffic
        if is_on_paper(model):
            model, traffic = None, model if traffic is None else traffic
        if is_on_paper(traffic):
            traffic = self.traffic(traffic, batch=batch, context=context)
        job = Job(
            kind="decode",
            step=step,
            label=label or _name(step),
            model=model,
            declared=traffic,
            batch=whole_number("batch", batch, 1),
            context=whole_number("context", context, 0),
            tokens_per_pass=tokens_per_pass,
            reset=reset,
            passes_per_reset=whole_number("passes_per_reset", passes_per_reset, 1),
            inputs=inputs,
            reference=reference,
            tamper=bool(tamper),
            larger=larger_step(larger, self.traffic),
            offload=offload,
            is_overlapped=bool(overlap),
            max_time_s=self._time(max_time_s),
            stopping=None if stopping is None else checked_stopping(stopping, "stopping"),
        )
        return self._run(job, device)

    def prefill(
        self,
        fn: Callable[..., Any],
        *,
        model: Any,
        prompt_tokens: int,
        batch: int = 1,
        reset: Callable[[], Any] | None = None,
        inputs: Any = None,
        label: str | None = None,
        max_time_s: float | None = None,
        device: str | None = None,
    ) -> Result:
        """Time `fn`, which runs prompts of `prompt_tokens` per sequence, against the compute roof; reports TTFT.

        `model` is a module, whose pass is traced, or a config, a file or a name, whose FLOPs are counted.
        `reset` empties the cache, untimed, before each call; without it the call is taken to be stateless (a fresh
        cache, or none).
        """
        tokens = whole_number("prompt_tokens", prompt_tokens, 1)
        declared = None
        if is_on_paper(model):
            paths = self._settings.specs
            model, declared = None, paper_traffic(model, batch=batch, prompt_tokens=tokens, specs_paths=paths)
        job = Job(
            kind="prefill",
            step=fn,
            label=label or _name(fn),
            model=model,
            declared=declared,
            batch=whole_number("batch", batch, 1),
            context=0,
            tokens_per_pass=float(tokens or 1),
            reset=reset,
            inputs=inputs,
            is_stateless=reset is None,
            max_time_s=self._time(max_time_s),
        )
        return self._run(job, device)

    def kernel(
        self,
        fn: Callable[..., Any],
        *,
        bytes_read: float = 0,
        bytes_written: float = 0,
        flops: float = 0,
        dtype: str | None = None,
        inputs: Any = None,
        reference: Callable[..., Any] | None = None,
        larger: tuple[Callable[..., Any], Any] | None = None,
        cache: str = "cold",
        label: str | None = None,
        max_time_s: float | None = None,
        device: str | None = None,
    ) -> Result:
        """Time one kernel that reads and writes the given bytes.

        Where none are given they are traced, which an opaque kernel (Triton, an extension) does not allow: then it is a
        RooflineUsageError. Outputs must follow `inputs`.

        ``cache="cold"`` rotates through `inputs` (argument tuples), or evicts between calls when one call's working
        set is under four cache knees; ``cache="hot"`` judges against the measured cache rate, and says so.
        `reference` takes the same arguments, and its outputs (or the arguments that it writes) must agree. `larger`:
        see `decode`; a call without arguments, and its bytes.
        """
        if cache not in ("cold", "hot"):
            raise RooflineUsageError(f"cache is {cache!r}; it must be 'cold' or 'hot'")
        declared = None
        if bytes_read != 0 or bytes_written != 0 or flops != 0:
            declared = declared_traffic(bytes_read, bytes_written, flops=flops or None, dtype=dtype)
        job = Job(
            kind="kernel",
            step=fn,
            label=label or _name(fn),
            declared=declared,
            batch=1,
            context=0,
            inputs=inputs,
            reference=reference,
            larger=larger_step(larger, self.traffic),
            is_stateless=True,
            is_hot=cache == "hot",
            max_time_s=self._time(max_time_s),
        )
        return self._run(job, device)

    def audit(
        self,
        *,
        model: Any = None,
        traffic: Any = None,
        batch: int | None = None,
        context: int | None = None,
        tokens_per_pass: float | Callable[[Any], float] = 1,
        remote: bool = False,
        label: str | None = None,
        device: str | None = None,
    ) -> Audit:
        """Watch timing code of the test's own: ``with roofline.audit(...) as audit: ...; audit.claim(...)``.

        Without `model` and `traffic` only clock and tokens are judged. The window of the claim is found from the
        test's clock reads; ``with audit.window():`` states it exactly. With `remote` the work is done in another
        process (the core of an engine, a server): it is drained when its last id has been received
        (``audit.received(stream)``), and the result lists what could not be checked.
        """
        source = traffic if traffic is not None else model
        counted = None if source is None else self.traffic(source, batch=batch, context=context)
        chosen, backend = self._placement.place(device, model if model is not None else traffic)
        audit = open_audit(
            self._session,
            chosen,
            backend,
            bench_of=lambda: self._bench(chosen, backend),
            traffic=counted,
            settings=self._settings,
            keep=self._keep,
            checks=self._checks,
            label=label or "audit",
            batch=whole_number("batch", batch, 1),
            tokens_per_pass=tokens_per_pass,
            is_remote=remote,
            frame=sys._getframe(1),
        )
        self.audits.append(audit)
        return audit

    # -- the common path ----------------------------------------------------------------------------------------

    def _run(self, job: Job, wanted: str | None) -> Result:
        device, backend = self._placement.place(wanted, job.model, [*held_objects(job.step), job.inputs])
        trial = Trial(
            job,
            settings=self._settings,
            backend=backend,
            backends=self._session.backends.loaded(),
            drains=self._session.backends.in_use(backend),
            checks=self._checks,
        )
        if self._settings.mode == "off":
            trial.loop.run(1)
            return self._keep(unmeasured_result(job.kind, job.label, device, trial.loop.outputs))
        with ExitStack() as held:
            held.enter_context(self._session.lock(device))
            self._session.onlooker.tell("the first pass, untimed")
            with trial:
                amounts = trial.look()
                touched = self._placement.device_of_pass(device, amounts.device_id, wanted or self._settings.device)
                if touched.key != device.key:
                    held.close()  # never two devices at once: whoever wants both in turn would wait for each other
                    held.enter_context(self._session.lock(touched))
                result = trial.judge(amounts, self._bench(touched, amounts.backend))
        return self._keep(result)

    def _bench(self, device: Device, backend: Backend, *, is_measuring: bool = True) -> Bench:
        return Bench(
            device=device,
            backend=backend,
            backends=self._session.backends_of(device),
            probe=self._session.probe(device),
            limit=self._session.limit(device),
            counter=self._session.counter(device) if is_measuring else None,
            onlooker=self._session.onlooker,
        )

    def _keep(self, result: Result) -> Result:
        """Remember and report a result; a bogus one raises at once."""
        self.results.append(result)
        if self._on_result is not None:
            self._on_result(result)
        if result.verdict.outcome == "bogus":
            raise error_of(result.evidence, result.verdict) or BogusMeasurement("bogus", result.verdict)
        return result

    def _time(self, max_time_s: float | None) -> float:
        return self._settings.max_time_s if max_time_s is None else positive_seconds("max_time_s", max_time_s)


def _name(step: Any) -> str:
    return getattr(step, "__name__", None) or type(step).__name__
