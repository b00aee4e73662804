"""A `Llama` of llama-cpp-python as something to measure: its device, its threads, and what a pass reads of its file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from pytest_roofline.architecture import Architecture
from pytest_roofline.backends.llama_cpp import ALL_LAYERS, LlamaFacts
from pytest_roofline.backends.llama_draft import drafting_llama
from pytest_roofline.backends.llama_generation import LlamaGenerationWatch
from pytest_roofline.device import Device
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.generation import GenerationRequest, WatchGeneration
from pytest_roofline.ggml import TYPES
from pytest_roofline.paper import paper_traffic
from pytest_roofline.predict import architecture_of
from pytest_roofline.protocol import Backend
from pytest_roofline.ruler import ThreadedBackend
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings
from pytest_roofline.specs.catalogue import Catalogue
from pytest_roofline.traffic import Traffic
from pytest_roofline.units import format_bytes

SAME_MODEL = 0.01


class TrafficAt(Protocol):
    """A pass after so many tokens of context, over so many positions: one, or as many as verify a draft."""

    def __call__(self, context: int, /, positions: int = 1) -> Traffic:
        """Weights once (of a mixture the experts that so many positions hit), keys and values once."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaEngine:
    """Where it is measured, how its passes are watched, and the bytes of one by the context before it."""

    device: Device
    backend: Backend
    make: WatchGeneration
    traffic_at: TrafficAt


def llama_engine(
    request: GenerationRequest, *, session: Session, settings: Settings, wanted: str | None
) -> LlamaEngine:
    """The processor with as many threads as the object has, or the accelerator that all of its layers are on.

    RooflineUsageError where they are on both, or where the file is not the model that was loaded.
    """
    facts = LlamaFacts(request.model)
    asked = wanted or settings.device
    device, backend = _place(facts, session, asked, is_measured=settings.mode != "off")
    return LlamaEngine(
        device=device,
        backend=backend,
        make=partial(_watch, backend.clock, device.id, _draft_traffic_at(request.model, facts, settings)),
        traffic_at=_traffic_at(request.model, facts, settings),
    )


def _watch(
    clock: Callable[[], float],
    device_id: str,
    draft_traffic_at: TrafficAt | None,
    request: GenerationRequest,
    drain: Callable[[], None],
) -> LlamaGenerationWatch:
    return LlamaGenerationWatch(request, drain, clock=clock, device_id=device_id, draft_traffic_at=draft_traffic_at)


def _draft_traffic_at(llama: Any, facts: LlamaFacts, settings: Settings) -> TrafficAt | None:
    """Of the model that the draft holds; None where it holds none, or one of other memory or of a file that is gone."""
    draft = drafting_llama(llama)
    if draft is None:
        return None
    of_draft = LlamaFacts(draft)
    if of_draft.device_layers != facts.device_layers:
        return None
    try:
        return _traffic_at(draft, of_draft, settings)
    except RooflineUsageError:
        return None


def _place(facts: LlamaFacts, session: Session, asked: str | None, *, is_measured: bool) -> tuple[Device, Backend]:
    layers = facts.device_layers
    if layers == 0:
        bare = next(one for one in session.backends.loaded() if one.name == "cpu")
        device = bare.devices()[0]
        if is_measured and asked and session.find_device(asked).id != device.id:
            raise RooflineUsageError(
                f"the model is on {device.id} (n_gpu_layers is 0, or this build of llama-cpp-python has no GPU), but "
                f"{asked!r} was asked for: drop device=, or load it with n_gpu_layers=-1"
            )
        threads = facts.threads
        if threads is None or not isinstance(bare, ThreadedBackend):
            return device, bare
        return device, bare.with_threads(threads)
    if layers != ALL_LAYERS:
        raise RooflineUsageError(
            f"n_gpu_layers is {layers}, of {facts.layers} and the output: a pass reads two memories, each with its own "
            "processor, and there is no ceiling for that here: load all layers (n_gpu_layers=-1) or none of them (0)"
        )
    device = session.find_device(asked)
    if device.is_cpu:
        raise RooflineUsageError(
            "the layers of the model are on a GPU (n_gpu_layers=-1), and no framework is loaded that could measure its "
            "memory: import torch, or load the model with n_gpu_layers=0"
        )
    return device, session.backend_of(device)


def _traffic_at(llama: Any, facts: LlamaFacts, settings: Settings) -> TrafficAt:
    """One pass of one sequence; keys and values in the types that they are cached in."""
    path = str(getattr(llama, "model_path", "") or "")
    if not path or not Path(path).is_file():
        raise RooflineUsageError(
            f"model_path of the Llama is {path!r:.200}, which is no file here: the bytes of a pass are read from it"
        )
    architecture = architecture_of(str(Path(path).resolve()), Catalogue(settings.specs))
    _refuse_another(path, architecture, facts)
    formats = [TYPES[number].format for number in facts.cache_types or () if number in TYPES]

    def traffic_at(context: int, /, positions: int = 1) -> Traffic:
        keys, values = (
            _verifying(
                partial(paper_traffic, architecture, context=context, kv=kv, specs_paths=settings.specs), positions
            )
            for kv in (formats if len(formats) == 2 else (None, None))
        )
        return keys if keys == values else _mean(keys, values)

    return traffic_at


def _verifying(traffic_of: Callable[..., Traffic], positions: int) -> Traffic:
    """A pass of one sequence over several positions: experts of as many, and one cache.

    Its arithmetic stays that of one: the peak that could bound it is another library's, not llama.cpp's.
    """
    alone = traffic_of(batch=1)
    if positions == 1:
        return alone
    several = traffic_of(batch=positions)
    return replace(
        alone,
        bytes_per_pass=alone.kv_bytes_per_pass + several.bytes_per_pass - several.kv_bytes_per_pass,
        weight_bytes_per_pass=several.weight_bytes_per_pass,
    )


def _mean(keys: Traffic, values: Traffic) -> Traffic:
    """Keys and values in two types: as many of the one as of the other."""
    return replace(
        keys,
        bytes_per_pass=(keys.bytes_per_pass + values.bytes_per_pass) / 2,
        least_bytes_per_pass=(keys.least_bytes_per_pass + values.least_bytes_per_pass) / 2,
        kv_bytes_per_pass=(keys.kv_bytes_per_pass + values.kv_bytes_per_pass) / 2,
        kv_bytes_per_token=((keys.kv_bytes_per_token or 0.0) + (values.kv_bytes_per_token or 0.0)) / 2,
        notes=tuple(dict.fromkeys((*keys.notes, *values.notes))),
    )


def _refuse_another(path: str, architecture: Architecture, facts: LlamaFacts) -> None:
    loaded = facts.stored_bytes
    if loaded is None:
        return
    stored = sum(weight.stored_bytes or 0 for weight in architecture.weights)
    if abs(stored - loaded) > SAME_MODEL * loaded:
        raise RooflineUsageError(
            f"{path} holds {format_bytes(stored)} of tensors, and the model that is loaded has {format_bytes(loaded)}: "
            "the file was replaced, or is one of several parts; load it again from all of them"
        )
