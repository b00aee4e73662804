"""What a look at the work leaves behind: nothing, also when a pass raises; and what it cannot tell."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from work_bench import accused, fate, prove  # noqa: E402


@pytest.fixture(scope="module")
def weights() -> Any:
    """A quarter of a megabyte."""
    return torch.rand(256, 256, generator=torch.Generator().manual_seed(1)) - 0.5


def test_every_weight_is_put_back_and_an_honest_step_follows_it() -> None:
    """Modules, also with tied weights: the output changes with the row, and nothing is left of the change."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(64, 128), torch.nn.Linear(128, 128), torch.nn.ReLU())
    head = torch.nn.Linear(128, 64, bias=False)
    head.weight = model[0].weight
    model.append(head)
    before = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    token = torch.tensor([3])
    for dtype in (torch.float32, torch.bfloat16):
        model.to(dtype)
        kept = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        with torch.inference_mode():
            proof = prove(lambda: model(token), model=model, tamper=True, reset=lambda: None)
        assert proof.work is not None
        assert proof.work.tampered is not None
        assert proof.work.tampered.is_changed
        assert accused(proof) == []
        assert all(torch.equal(tensor, kept[name]) for name, tensor in model.state_dict().items())
    assert set(before) == set(kept)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_weight_is_put_back_when_the_pass_raises(weights: Any, error: type[BaseException]) -> None:
    """Also on Ctrl-C."""
    own = weights.clone()

    def step() -> Any:
        if not torch.equal(own, weights):
            raise error
        return own @ own

    with pytest.raises(error):
        prove(step, tamper=True, is_kernel=True)
    assert torch.equal(own, weights)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_output_is_put_back_when_the_pass_raises(error: type[BaseException]) -> None:
    """An exception at values that the step did not expect costs the check, Ctrl-C ends the test."""
    out = torch.zeros(64)

    def step() -> Any:
        if bool(out.any()):
            raise error
        return out

    if error is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            prove(step, is_kernel=True)
    else:
        proof = prove(step, is_kernel=True)
        assert accused(proof) == []
        assert any("raised ValueError" in line for line in proof.not_checked)
    assert not bool(out.any())


def test_ids_cannot_show_a_changed_weight(weights: Any) -> None:
    """The largest logit may stay the largest."""
    hidden = torch.rand(256)
    head = weights.clone()
    head[7] = 50.0
    proof = prove(lambda: (head @ hidden).argmax(), tamper=True, is_kernel=True)
    assert accused(proof) == []


def test_mapped_weights_are_not_tampered_with(tmp_path: Any) -> None:
    """They may be the file itself."""
    path = tmp_path / "weights.pt"
    torch.save(torch.rand(128, 128), path)
    mapped, hidden = torch.load(path, mmap=True), torch.rand(128)
    proof = prove(lambda: mapped @ hidden, tamper=True, is_kernel=True)
    assert accused(proof) == []
    assert any("mapped, shared and packed weights are left alone" in line for line in proof.not_checked)


def test_no_pass_runs_without_room(weights: Any) -> None:
    """A state that cannot be reset is not moved any further when its room is used up or unknown."""
    calls = [0]

    def step() -> Any:
        calls[0] += 1
        return weights @ weights

    proof = prove(step, room=5, passes=3)
    assert calls[0] == 4
    assert any("no room" in line for line in proof.not_checked)
    calls[0] = 0
    proof = prove(step, room=None, passes=3)
    assert calls[0] == 4


def test_a_reset_follows_the_last_pass(weights: Any) -> None:
    """The test finds the state at its start, however many passes were looked at; none runs beyond the room."""
    place = [0]

    def step() -> Any:
        assert place[0] < 1
        place[0] += 1
        return weights @ weights

    def reset() -> None:
        place[0] = 0

    proof = prove(step, reset=reset, room=1, passes=1)
    assert fate(proof) == "renewed"
    assert place == [0]


def test_equal_inputs_prove_nothing(weights: Any) -> None:
    """Inputs that are the same each time, or are no arrays, are said to be."""
    for inputs in ([(torch.ones(256),)], [(1,), (2,)]):
        proof = prove(lambda *_: weights @ torch.ones(256), is_kernel=True, inputs=inputs)
        assert accused(proof) == []
        assert any("the same values each time, or no arrays" in line for line in proof.not_checked)


def test_an_argument_that_is_written_is_no_input(weights: Any) -> None:
    """A kernel that fills the buffers it is given gives the same output each time, and is honest."""
    draws = [(torch.rand(256, 256),) for _ in range(3)]
    for kernel in (
        lambda out: torch.mm(weights, weights, out=out),
        lambda out: (out.copy_(weights), weights @ weights)[1],
    ):
        assert accused(prove(kernel, is_kernel=True, inputs=draws)) == []
    pairs = [(torch.rand(256, 256), torch.zeros(256, 256)) for _ in range(3)]
    honest = prove(lambda source, out: torch.mm(weights, source, out=out), is_kernel=True, inputs=pairs)
    assert accused(honest) == []
    assert honest.work is not None
    assert honest.work.fresh_input is not None
    assert honest.work.fresh_input.is_same_address
    deaf = prove(lambda source, out: torch.mm(weights, weights, out=out), is_kernel=True, inputs=pairs)
    assert accused(deaf) == ["stale-output"]


def test_an_argument_that_decides_nothing_is_no_input(weights: Any) -> None:
    """Only where every array is another must the output be another."""
    draws = [(weights, torch.tensor([at])) for at in range(3)]
    assert accused(prove(lambda matrix, request: matrix @ matrix, is_kernel=True, inputs=draws)) == []
