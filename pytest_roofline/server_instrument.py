"""The part of the `roofline` fixture that asks a server: stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.instrument_part import InstrumentPart
from pytest_roofline.result import Result
from pytest_roofline.traffic import Traffic


class ServerInstrument(InstrumentPart):
    """Measures servers."""

    def stream(
        self,
        url: str,
        *,
        model: Any = None,
        traffic: Any = None,
        weights: str | None = None,
        kv: str | None = None,
        device: str | None = None,
        bandwidth: float | str | None = None,
        peak: float | str | None = None,
        tp: int = 1,
        tokens_per_pass: float | None = None,
        prompts: str | Sequence[str] | None = None,
        tokens: int = 64,
        requests: int | None = None,
        concurrency: int = 1,
        warmup: int = 1,
        fresh: bool = True,
        repeat: bool = True,
        at_least_per_user: Any = None,
        at_least_aggregate: Any = None,
        chat: bool | None = None,
        served: str | None = None,
        api_key: str | None = None,
        body: Mapping[str, Any] | None = None,
        timeout_s: float = 60.0,
        label: str | None = None,
    ) -> Result:
        """Ask an OpenAI-compatible endpoint, read its streamed answers, and judge them per user and in aggregate.

        `url` ends in ``/v1``, or in the path of chats or completions. What the server runs is stated, as for ``roofline
        predict``: `model` (or `traffic`), `weights`, `kv`, on `tp` of `device` (or its `bandwidth` and `peak`). Without
        them there are figures and no verdict. `requests` prompts are sent, `concurrency` at a time, each `fresh`: it
        begins with what no cache can know. `repeat` asks one of them twice, to see what the server remembers.
        The marker's `at_least` goes for both results, unless `at_least_per_user` or `at_least_aggregate` is given.
        `tokens_per_pass` is for servers that draft. `body` adds keys to each request, and takes out those that are
        None; `served` is the server's name of the model.

        Tokens are by the server's usage, ids and log probabilities, never by chunks. `fraction` is of the ceiling per
        user at as many sequences as were seen; ``result.aggregate`` that of all together; ``result.stream`` has TTFT,
        TPOT, percentiles and every request. Raises MissingDependency without httpx, MeasurementError where nothing
        was answered.
        """
        # A test that asks no server never needs the client's rooms.
        from pytest_roofline.endpoint import Endpoint
        from pytest_roofline.stated_roof import stated_roof
        from pytest_roofline.stream_trial import run_stream, stream_job

        if model is not None and traffic is not None:
            raise RooflineUsageError("model= or traffic= states what a pass reads, not both")
        job = stream_job(
            prompts=prompts,
            tokens=tokens,
            requests=requests,
            concurrency=concurrency,
            warmup=warmup,
            fresh=fresh,
            repeat=repeat,
            label=label or str(url),
            tokens_per_pass=tokens_per_pass,
            at_least_per_user=at_least_per_user,
            at_least_aggregate=at_least_aggregate,
            tp=tp,
            timeout_s=timeout_s,
        )
        subject, roof = model if traffic is None else traffic, None
        if subject is not None and (device is not None or bandwidth is not None):
            roof = stated_roof(
                device,
                bandwidth,
                peak,
                tp=tp,
                traffic_at=self._traffic_at(subject, weights, kv),
                tokens_per_pass=float(tokens_per_pass or 1),
                specs_paths=self._settings.specs,
            )
        result = run_stream(
            job,
            open_endpoint=partial(
                Endpoint, url, chat=chat, served=served, api_key=api_key, body=body, timeout_s=timeout_s
            ),
            roof=roof,
            settings=self._settings,
            checks=self._checks,
        )
        self._keep(result)
        if result.aggregate is not None:
            self._keep(result.aggregate)
        return result

    def _traffic_at(self, subject: Any, weights: str | None, kv: str | None) -> Callable[[int, int], Traffic]:
        """Passes at any batch and context of one model, which is read once."""
        if isinstance(subject, (str, PathLike)):
            from pytest_roofline.predict import architecture_of
            from pytest_roofline.specs.catalogue import Catalogue

            subject = architecture_of(str(subject), Catalogue(self._settings.specs))

        def traffic_at(batch: int, context: int) -> Traffic:
            if isinstance(subject, Traffic):
                return subject
            return self.traffic(subject, batch=batch, context=context, weights=weights, kv=kv)

        return traffic_at
