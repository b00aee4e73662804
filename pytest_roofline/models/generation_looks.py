"""What is looked at in single decode passes, untimed: their bytes, and whether they write what they return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from pytest_roofline.checks.attempts import Overwritten
from pytest_roofline.generation import OtherPrompt
from pytest_roofline.models.caches import reach, room_of
from pytest_roofline.models.generation_passes import PassRecorder
from pytest_roofline.protocol import Trace, TraceRequest
from pytest_roofline.traffic import Traffic
from pytest_roofline.witness import Rerun

TRACED_PASSES = 3
"""Decode passes in a row: one that skips its work every other time does not set the bytes of all."""
PASSES_OF_A_LOOK = 5
"""Room in a static cache that overwriting an output may need."""
LEAST_ELEMENTS = 16
"""Fewer logits may agree by chance."""


class SeenEnough(Exception):
    """Ends a run that has shown what it was for; nothing is wrong."""


class PassTracer:
    """Traces the first decode passes of a run, and the first of its draft."""

    def __init__(
        self,
        trace: Callable[[TraceRequest], Trace | None],
        recorder: PassRecorder,
        is_decoding: Callable[[], bool],
    ) -> None:
        self._trace = trace
        self._recorder = recorder
        self._is_decoding = is_decoding
        self._seen = 0
        self.decode: list[tuple[int, Traffic]] = []
        self.draft: Traffic | None = None
        self.device_ids: tuple[str, ...] = ()
        self.bytes_by_device: tuple[tuple[str, float], ...] = ()
        self.surveyor: Any = None
        self.logits: torch.Tensor | None = None
        """The last ones of the first decode pass."""
        self.first: Any = None
        """What that pass returned, held: its memory is not given to a later one."""

    def around(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a pass, under a trace where it is one of those."""
        is_draft = self._recorder.is_drafting
        if not self._is_decoding():
            return original(*args, **kwargs)
        self._seen += not is_draft
        if (self.draft is not None) if is_draft else self._seen > TRACED_PASSES:
            return original(*args, **kwargs)
        held: list[Any] = []

        def step() -> Any:
            held.append(original(*args, **kwargs))
            # An output also hands back what came in (an encoder's states), which is no work of this pass.
            return getattr(held[-1], "logits", held[-1])

        trace = self._trace(TraceRequest(step=step, model=getattr(original, "__self__", None)))
        if trace is None:
            return original(*args, **kwargs)
        if is_draft:
            self.draft = trace.traffic
        else:
            if not self.decode:
                self.first, self.logits = getattr(held[-1], "logits", None), last_logits(held[-1])
            self.decode.append((self._seen, trace.traffic))
            self.device_ids = self.device_ids or trace.device_ids
            self.bytes_by_device = self.bytes_by_device or trace.bytes_by_device
            self.surveyor = self.surveyor or trace.surveyor
        return held[-1]


class PassProbe:
    """In a run from another prompt: are its logits others, and does a pass write what it returns? Then the run ends.

    The second decode pass is run several times over, on a state that nobody uses again.
    """

    def __init__(
        self,
        overwritten: Callable[[Rerun], Overwritten],
        recorder: PassRecorder,
        looked: PassTracer | None,
        is_decoding: Callable[[], bool],
    ) -> None:
        self._overwritten = overwritten
        self._recorder = recorder
        self._looked = looked
        self._is_decoding = is_decoding
        self._latest: Any = None
        self.seen = OtherPrompt(reason="no logits of a decode pass could be compared")

    def around(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a pass; SeenEnough instead of the second decode pass."""
        if self._recorder.is_drafting or not self._is_decoding():
            return original(*args, **kwargs)
        if self._latest is not None:
            self.seen = replace(self.seen, overwritten=self._overwrite(original, args, kwargs))
            raise SeenEnough
        output = original(*args, **kwargs)
        self._latest = getattr(output, "logits", output)
        self.seen = self._compared(output)
        return output

    def _compared(self, output: Any) -> OtherPrompt:
        first, second = self._looked.logits if self._looked else None, last_logits(output)
        if first is None or second is None or first.shape != second.shape or first.numel() < LEAST_ELEMENTS:
            return self.seen
        is_constant = bool((first == first.flatten()[0]).all())
        return OtherPrompt(elements=first.numel(), is_identical=torch.equal(first, second) and not is_constant)

    def _overwrite(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Overwritten:
        room = room_of(reach(args, kwargs).caches)
        if room is not None and room < PASSES_OF_A_LOOK:
            return Overwritten(fate="unknown", reason="no room for further passes in the static cache")

        def step() -> Any:
            output = original(*args, **kwargs)
            return getattr(output, "logits", output)

        traced = self._looked.decode if self._looked else []
        return self._overwritten(
            Rerun(
                run=step,
                start=lambda: None,
                drain=lambda: None,
                step=step,
                model=getattr(original, "__self__", None),
                first=self._looked.first if self._looked else None,
                latest=self._latest,
                is_first_closed=bool(traced) and traced[0][1].is_closed,
                expected_bytes=traced[0][1].bytes_per_pass if traced else 0.0,
                is_harmless=True,
            )
        )


def last_logits(output: Any) -> torch.Tensor | None:
    """A copy of the logits of the last position, on the host; None where the output has none."""
    logits = getattr(output, "logits", None)
    if not isinstance(logits, torch.Tensor) or not logits.is_floating_point() or logits.dim() < 2:
        return None
    return logits[:, -1].detach().float().cpu().clone()
