"""The part of the `roofline` fixture that lets a framework generate: generate."""

from __future__ import annotations

from typing import Any

from pytest_roofline.generation import generation_request
from pytest_roofline.generation_trial import run_generation
from pytest_roofline.instrument_part import InstrumentPart
from pytest_roofline.result import Result
from pytest_roofline.stopping import checked_stopping


class GenerationInstrument(InstrumentPart):
    """Measures whole generations."""

    def generate(
        self,
        model: Any,
        inputs: Any = None,
        *,
        label: str | None = None,
        max_time_s: float | None = None,
        stopping: str | None = None,
        device: str | None = None,
        **kwargs: Any,
    ) -> Result:
        """Run ``model.generate(inputs, **kwargs)`` of transformers again and again, and judge its decode passes.

        `inputs` are ids, or what the tokenizer returns. Of a `Llama` of llama-cpp-python, ``create_completion`` runs on
        a text or ids, ``create_chat_completion`` on messages. TTFT ends with the first token's logits; a pass's time is
        what follows, by the passes of the model (a draft's apart). Tokens are new ids up to each sequence's end, prompt
        and padding left out. Each run is a sample; `outputs` are the last run's sequences, or its completion.
        """
        result = run_generation(
            generation_request(model, inputs, kwargs),
            session=self._session,
            placement=self._placement,
            settings=self._settings,
            bench_of=self._bench,
            device=device,
            label=label,
            max_time_s=self._time(max_time_s),
            stopping=None if stopping is None else checked_stopping(stopping, "stopping"),
            checks=self._checks,
        )
        return self._keep(result)
