"""What a step returned: every tensor is found and read, integers are counted, and nothing strange raises."""

from __future__ import annotations

import dataclasses
import inspect
from collections import OrderedDict, deque, namedtuple
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pytest_roofline.backends import torch_outputs  # noqa: E402
from pytest_roofline.backends.torch_outputs import device_of, force  # noqa: E402

Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Answer:
    """An output as engines define it."""

    ids: torch.Tensor
    hidden: torch.Tensor
    text: str = "answer"


class Cache:
    """A cache with attributes and with slots, and with a way back to itself."""

    __slots__ = ("__dict__", "lengths")

    def __init__(self) -> None:
        self.keys = [torch.ones(2, 3)]
        self.lengths = torch.tensor([7])
        self.me = self


IDS = torch.tensor([[1, 2, 3], [4, 5, 6]])


@pytest.mark.parametrize(
    ("output", "arrays", "ids"),
    [
        (None, 0, None),
        (3.0, 0, None),
        (torch.ones(4), 1, None),
        (torch.ones(3).bool(), 1, None),
        (torch.tensor(5), 1, 1),
        (IDS, 1, 6),
        (IDS.int(), 1, 6),
        (IDS.to(torch.int16), 1, None),
        ([IDS, (IDS.clone(), {"a": IDS.clone()})], 3, 18),
        ([IDS, IDS], 1, 6),
        (Pair(IDS, torch.ones(1)), 2, 6),
        (OrderedDict(a=IDS), 1, 6),
        ({IDS}, 1, 6),
        (deque([IDS]), 1, 6),
        (Answer(IDS, torch.ones(1)), 2, 6),
        ({"input_ids": IDS, "attention_mask": torch.ones(2, 3).long()}, 2, 6),
        ({"logits": torch.ones(1), "past_key_values": Cache()}, 3, None),
        ((IDS, Cache()), 3, 6),
        (torch.empty(0, dtype=torch.int64), 1, 0),
        (torch.nn.Linear(2, 2), 0, None),
    ],
)
def test_tensors_are_found_and_ids_counted(output: Any, arrays: int, ids: int | None) -> None:
    """Each tensor once; integers count where the step itself returned them, not in caches and masks."""
    forced = force(output)
    assert (forced.arrays, forced.ids, forced.notes) == (arrays, ids, ())


def test_the_outputs_and_caches_of_transformers() -> None:
    """A model output with a dynamic cache and one with a static cache: logits and every key and value."""
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2, vocab_size=32
    )
    model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        dynamic = model(torch.tensor([[1, 2]]), use_cache=True)
        static = transformers.StaticCache(config=config, max_cache_len=8)
        name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
        fixed = model(torch.tensor([[1, 2]]), use_cache=True, **{name: static})
    for output in (dynamic, fixed):
        forced = force(output)
        assert forced.arrays >= 5
        assert forced.ids is None
        assert forced.notes == ()
    assert device_of(model) == "cpu"
    assert device_of(static) == "cpu"


def freed() -> torch.Tensor:
    """A tensor whose storage was given back, as sharded training does."""
    tensor = torch.ones(5)
    tensor.untyped_storage().resize_(0)
    return tensor


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (lambda: torch.empty(3, device="meta"), "meta device"),
        (freed, "storage of a tensor was freed"),
        (lambda: torch.nn.parameter.UninitializedParameter(), "could not be read"),
    ],
)
def test_what_cannot_be_read_is_a_note(tensor: Any, words: str) -> None:
    """One note however many tensors share the reason; they are counted, and the rest is read."""
    forced = force([tensor(), tensor(), torch.ones(1)])
    assert forced.arrays == 3
    assert len(forced.notes) == 1
    assert words in forced.notes[0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(2, 3, requires_grad=True),
        lambda: torch.ones(6)[::2],
        lambda: torch.ones(2, 3).t(),
        lambda: torch.ones(1).expand(1000, 1000),
        lambda: torch.ones(2, dtype=torch.complex64).conj(),
        lambda: torch.ones(3).to(torch.float8_e4m3fn),
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.eye(3).to_sparse().coalesce(),
        lambda: torch.zeros(3, 3).to_sparse(),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
        lambda: torch.nn.Parameter(torch.ones(2)),
        lambda: torch.nn.Buffer(torch.ones(2)),
    ],
)
def test_every_kind_of_tensor_is_read(make: Any) -> None:
    """Views, layouts, dtypes: one element of each comes to the host."""
    assert force(make()).notes == ()


@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning", "ignore:.*quantize_per_tensor.*:UserWarning")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_older_kinds_of_tensors_are_read() -> None:
    """Compressed rows, quantized numbers and nested strides: kinds that torch itself warns about."""
    for tensor in (
        torch.eye(3).to_sparse_csr(),
        torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    ):
        assert force(tensor).notes == ()


def test_an_inference_tensor_is_read_outside_of_its_mode() -> None:
    """No graph is recorded for it."""
    with torch.inference_mode():
        tensor = torch.ones(2)
    assert force(tensor).notes == ()


class Scaled(torch.Tensor):
    """A quantized weight as libraries write it: no memory of its own, and no operator but those it knows."""

    @staticmethod
    def __new__(cls, data: torch.Tensor, scale: torch.Tensor) -> Scaled:
        """Make a tensor without memory."""
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=torch.float32)  # type: ignore[return-value]

    def __init__(self, data: torch.Tensor, scale: torch.Tensor) -> None:
        self.payload, self.scale = data, scale

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["payload", "scale"], None

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(str(func))


def test_a_wrapper_subclass_is_read_through_its_parts() -> None:
    """None of its own operators runs; its dtype decides whether it is ids."""
    wrapped = Scaled(torch.ones(2, 2, dtype=torch.int8), torch.ones(1))
    assert (force(wrapped).arrays, force(wrapped).notes) == (1, ())
    broken = Scaled(freed(), torch.ones(1))
    assert "freed" in force(broken).notes[0]
    assert device_of(wrapped) == "cpu"


class Logged(torch.Tensor):
    """A subclass that has its own memory and refuses everything."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError("no")


class Hostile:
    """An object whose every attribute raises."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("__class__", "__dict__"):
            return object.__getattribute__(self, name) if name == "__class__" else self.boom
        raise OSError(name)


class BadMapping(dict[str, Any]):
    """A mapping that does not want to be read."""

    def items(self) -> Any:
        """Refuse."""
        raise KeyError("closed")


@pytest.mark.parametrize(
    "output",
    [Hostile(), BadMapping(a=1), torch.ones(2).as_subclass(Logged)],
    ids=lambda each: type(each).__name__,
)
def test_nothing_strange_raises(output: Any) -> None:
    """A note, and the tensors beside it are read."""
    forced = force([output, torch.ones(2)])
    assert forced.arrays >= 1
    assert forced.notes


def test_an_iterator_is_not_consumed() -> None:
    """A generator that a step returns is still whole afterwards."""

    def tokens() -> Iterator[int]:
        yield 1

    iterator = tokens()
    assert force([iterator, iter([1])]).arrays == 0
    assert list(iterator) == [1]


def test_a_cycle_and_a_deep_output_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is visited once, and past the bounds the walk says that it stopped."""
    loop: list[Any] = [torch.ones(1)]
    loop.append(loop)
    assert force(loop) == torch_outputs.Forced(arrays=1)
    deep: Any = torch.ones(1)
    for _ in range(torch_outputs.MAX_DEPTH + 5):
        deep = [deep]
    assert "too large or too strange" in force(deep).notes[0]
    monkeypatch.setattr(torch_outputs, "MAX_OBJECTS", 10)
    forced = force([torch.ones(1) for _ in range(50)])
    assert forced.arrays < 10
    assert "too large or too strange" in forced.notes[0]


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (torch.ones(1), "cpu"),
        ([torch.ones(1), torch.empty(9, device="meta")], "cpu"),
        ({"weights": torch.nn.Linear(2, 2)}, "cpu"),
        (torch.empty(9, device="meta"), None),
        (torch.nn.Linear(2, 2, device="meta"), None),
        (torch.eye(3).to_sparse(), "cpu"),
        (torch.empty(0), "cpu"),
        ("cpu", None),
        (None, None),
        (lambda: torch.ones(1), None),
        ([torch, torch.nn.functional.linear, "".join], None),
    ],
)
def test_the_device_of_an_object(obj: Any, expected: str | None) -> None:
    """Where its tensors are; nowhere when there are none, or none with memory."""
    assert device_of(obj) == expected


def test_the_device_with_most_bytes_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model split over two devices is measured where more of it lies; views and tied weights count once."""
    small, large = torch.ones(10), torch.ones(30)
    devices = iter(["cuda:1", "cuda:1", "cuda:1", "cuda:1", "cpu", "cpu"])
    monkeypatch.setattr(torch_outputs, "device_id", lambda device: next(devices))
    assert device_of([small, small[:], small[1:], small.view(2, 5), large, large[:3]]) == "cpu"


def test_a_device_without_an_index_is_the_first() -> None:
    """The names that the package uses."""
    assert torch_outputs.device_id(torch.device("cpu")) == "cpu"
    assert torch_outputs.device_id(torch.device("cuda", 1)) == "cuda:1"
    assert torch_outputs.device_id(torch.device("mps")) == "mps:0"
