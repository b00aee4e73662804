"""The timed loop, on the fake device."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeModel
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.loop import ROOM_WITHOUT_RESET, Loop, OutOfRoom, check_output

BYTES = 2e9
STEP_S = 2.5e-3  # 2 GB at 80 % of 1 TB/s


def rig(**options: Any) -> tuple[FakeBackend, FakeModel, Loop]:
    """A model of 2 GB on a fake device, in a loop."""
    backend = FakeBackend(is_lazy=options.pop("is_lazy", False))
    model = FakeModel(backend, BYTES, max_context=options.pop("max_context", None))
    step = options.pop("step", model.step)
    return backend, model, Loop(step, backend=backend, drains=[backend], **options)


# -- what may be given


@pytest.mark.parametrize(
    ("step", "options", "message"),
    [
        (7, {}, "step is a int; it must be callable"),
        (print, {"reset": 7}, "reset is a int; it must be callable"),
        (print, {"passes_per_reset": 0}, "passes_per_reset is 0; it must be 1 or more"),
        (print, {"passes_per_reset": -3}, "passes_per_reset is -3"),
        (print, {"inputs": []}, "inputs is empty"),
    ],
)
def test_wrong_use_is_refused(step: Any, options: dict[str, Any], message: str) -> None:
    """At the border, before anything runs."""
    with pytest.raises(RooflineUsageError, match=message):
        Loop(step, backend=FakeBackend(), drains=[], **options)


# -- time


@pytest.mark.parametrize("is_lazy", [False, True])
@pytest.mark.parametrize("passes", [1, 10])
def test_a_block_is_closed_by_the_device(passes: int, is_lazy: bool) -> None:
    """The host is soon done; the block ends when the device is, on eager and lazy frameworks alike."""
    _, _, loop = rig(is_lazy=is_lazy)
    block = loop.run(passes)
    assert block.closed_s == pytest.approx(passes * STEP_S, rel=0.02)
    assert block.host_s < 0.1 * block.closed_s
    assert (block.passes, block.first_pass) == (passes, 0)
    assert (block.forced.arrays, block.forced.ids) == (1, 1)


def test_work_from_before_is_not_charged() -> None:
    """The loop drains first."""
    _, model, loop = rig()
    for _ in range(50):
        model.step()
    assert loop.run(4).closed_s == pytest.approx(4 * STEP_S, rel=0.02)


def test_the_last_output_is_kept() -> None:
    """And only that one: the one of the pass before is gone when the next block begins."""
    _, _, loop = rig()
    loop.run(2)
    first = loop.outputs
    assert first is not None
    loop.run(1)
    assert loop.outputs is not first


def test_reset_is_never_timed() -> None:
    """A reset of a second does not show."""
    backend, model, _ = rig()
    resets = []

    def reset() -> None:
        resets.append(model.context)
        backend.host(1.0)
        backend.launch(seconds=1.0)
        model.reset()

    loop = Loop(model.step, backend=backend, drains=[backend], reset=reset, passes_per_reset=8)
    assert loop.has_reset
    for _ in range(3):
        assert loop.run(5).closed_s == pytest.approx(5 * STEP_S, rel=0.02)
    # Fresh at first, reset before each block after it.
    assert resets == [5, 5]
    assert (loop.since_reset, loop.in_all) == (5, 15)


# -- room


def test_room_is_counted_with_and_without_reset() -> None:
    """64 passes in all where nothing is known; the stated room; no bound for kernels."""
    assert rig()[2].room == ROOM_WITHOUT_RESET == 64
    assert rig(passes_per_reset=7)[2].room == 7
    stateless = rig(is_stateless=True)[2]
    assert stateless.room is None
    assert stateless.room_left is None
    stateless.run(100)


def test_a_block_beyond_the_room_never_runs() -> None:
    """Not a single pass of it: an overrun poisons a CUDA context."""
    _, model, loop = rig(passes_per_reset=5, max_context=5)
    loop.run(3)
    assert loop.room_left == 2
    with pytest.raises(OutOfRoom):
        loop.run(3)
    assert model.context == 3
    loop.run(2)
    assert loop.room_left == 0
    with pytest.raises(OutOfRoom):
        loop.run(1)


def test_a_block_larger_than_the_room_does_not_run_after_a_reset_either() -> None:
    """Resetting makes no more room than there is."""
    backend, model, _ = rig(max_context=5)
    loop = Loop(model.step, backend=backend, drains=[backend], reset=model.reset, passes_per_reset=5)
    loop.run(5)
    loop.run(5)
    with pytest.raises(OutOfRoom):
        loop.run(6)


def test_a_traced_room_is_learned_where_none_was_stated() -> None:
    """What the caller said comes first; no room left still is one pass, or nothing could ever run."""
    _, _, loop = rig()
    assert not loop.is_room_known
    loop.set_room(10)
    assert (loop.room, loop.is_room_known) == (10, True)
    loop.set_room(99)
    assert loop.room == 10
    unlucky = rig()[2]
    unlucky.set_room(0)
    assert unlucky.room == 1


def test_passes_that_ran_elsewhere_are_counted() -> None:
    """The traced pass used up room."""
    _, _, loop = rig(passes_per_reset=4)
    loop.count()
    loop.count(2)
    assert (loop.room_left, loop.in_all) == (1, 3)
    assert loop.run(1).first_pass == 3
    loop.reset()  # there is none: nothing happens
    assert loop.since_reset == 4


def test_a_single_call_is_counted_and_drained() -> None:
    """Also when it raises."""
    backend, _, loop = rig()
    assert loop.call(()) is not None
    assert (loop.in_all, backend.pending()) == (1, 0)


def test_another_framework_can_be_learned() -> None:
    """The trace shows which framework the step uses: its clock times from then on."""
    other = FakeBackend(start_s=1000.0)
    _, _, loop = rig()
    loop.use(other)
    block = loop.run(1)
    assert block.closed_s < 1.0


# -- inputs


def recorder(**options: Any) -> tuple[list[Any], Loop]:
    """A loop whose step notes its arguments."""
    backend = FakeBackend()
    seen: list[Any] = []

    def step(*arguments: Any) -> Any:
        seen.append(arguments)
        return backend.launch(seconds=1e-3)

    return seen, Loop(step, backend=backend, drains=[backend], is_stateless=True, **options)


def test_without_inputs_the_step_takes_none() -> None:
    """`step()`."""
    seen, loop = recorder()
    loop.run(2)
    assert seen == [(), ()]
    assert loop.arguments() == ()


def test_inputs_are_fresh_per_block_and_the_same_within_it() -> None:
    """A sequence is rotated through; a value that is no tuple is one argument."""
    seen, loop = recorder(inputs=[(1, 2), [3], "four"])
    for _ in range(4):
        loop.run(2)
    assert seen == [(1, 2)] * 2 + [(3,)] * 2 + [("four",)] * 2 + [(1, 2)] * 2


def test_inputs_may_be_made_by_a_function() -> None:
    """It is called once per block, outside the timed span."""
    made = iter(range(100))
    seen, loop = recorder(inputs=lambda: (next(made), "x"))
    loop.run(3)
    loop.run(1)
    assert seen == [(0, "x")] * 3 + [(1, "x")]


@pytest.mark.parametrize("is_lazy", [False, True])
def test_a_kernel_rotates_its_inputs_with_every_call(is_lazy: bool) -> None:
    """So that its caches are cold."""
    backend = FakeBackend(is_lazy=is_lazy)
    seen: list[int] = []

    def kernel(which: int) -> Any:
        seen.append(which)
        return backend.launch(seconds=1e-3)

    loop = Loop(kernel, backend=backend, drains=[backend], inputs=[(1,), (2,)], is_stateless=True, rotates=True)
    block = loop.run(5)
    assert seen == [1, 2, 1, 2, 1]
    assert block.closed_s == pytest.approx(5e-3, rel=0.05)


def test_lazy_steps_with_arguments_are_submitted() -> None:
    """Each pass is handed over inside the loop."""
    backend = FakeBackend(is_lazy=True)
    loop = Loop(lambda seconds: backend.launch(seconds=seconds), backend=backend, drains=[backend], inputs=[(1e-3,)])
    assert loop.run(6).closed_s == pytest.approx(6e-3, rel=0.05)


# -- what has not run


class Awaitable:
    """Something that can be awaited and is no coroutine."""

    def __await__(self) -> Iterator[None]:
        yield None


async def coroutine() -> None:
    """A step that somebody forgot to await."""


def generator() -> Iterator[int]:
    """A step that produces one token at a time."""
    yield 1


async def agenerator() -> Any:
    """The same, asynchronously."""
    yield 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: None, "the step returned nothing"),
        (coroutine, "the step returned a coroutine that nobody awaited, so it has not run"),
        (Awaitable, "the step returned a Awaitable that nobody awaited"),
        (generator, "the step returned a generator, so it has not run"),
        (agenerator, "the step returned a generator, so it has not run"),
        (Future, "the step returned a future, so its work may not have run"),
    ],
)
def test_outputs_that_show_that_nothing_ran_are_refused(make: Any, message: str) -> None:
    """A usage error that says what to return instead; and no warning about it at some later moment."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, _, loop = rig(step=make)
        with pytest.raises(RooflineUsageError, match=message):
            loop.run(1)
        assert loop.outputs is None


def test_kernels_may_return_nothing() -> None:
    """They write where they were told to; everything else is refused as before."""
    _, _, loop = rig(step=lambda: None, may_return_nothing=True)
    loop.run(3)
    with pytest.raises(RooflineUsageError, match="generator"):
        check_output(generator(), may_return_nothing=True)


def test_a_step_that_runs_its_coroutine_is_fine() -> None:
    """What counts is what it returns."""
    backend = FakeBackend()

    async def work() -> Any:
        return backend.launch(seconds=1e-3)

    loop = Loop(lambda: asyncio.run(work()), backend=backend, drains=[backend])
    assert loop.run(2).closed_s == pytest.approx(2e-3, rel=0.05)


# -- interrupted


@pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt()])
def test_whatever_the_step_raises_comes_through_drained(error: BaseException) -> None:
    """No work of this test is charged to the next, Ctrl-C included; the passes count as run."""
    backend, model, _ = rig()
    calls = []

    def step() -> Any:
        calls.append(1)
        model.step()
        if len(calls) == 3:
            raise error
        return model

    loop = Loop(step, backend=backend, drains=[backend], passes_per_reset=10)
    with pytest.raises(type(error)):
        loop.run(5)
    assert backend.pending() == 0
    assert (loop.outputs, loop.in_all, loop.room_left) == (None, 5, 5)
    calls.extend([1, 1, 1])
    loop.run(5)


def test_a_call_that_raises_is_drained_too() -> None:
    """The untimed pass behaves as the timed ones do."""
    backend, model, _ = rig()

    def step() -> None:
        model.step()
        raise ValueError("broken")

    loop = Loop(step, backend=backend, drains=[backend])
    with pytest.raises(ValueError, match="broken"):
        loop.call(())
    assert backend.pending() == 0


def test_every_framework_in_use_is_drained() -> None:
    """Work on another framework's device belongs to the pass too."""
    first, second = FakeBackend(), FakeBackend()

    def step() -> Any:
        second.launch(seconds=1.0)
        return first.launch(seconds=1e-3)

    loop = Loop(step, backend=first, drains=[first, second])
    loop.run(2)
    assert second.pending() == 0
