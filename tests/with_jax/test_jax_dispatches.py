"""What other threads got from JAX is known while somebody listens, and JAX is left as it was."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

jax = pytest.importorskip("jax")

from pytest_roofline.backends.jax import JaxBackend  # noqa: E402
from pytest_roofline.backends.jax_dispatches import JaxDispatches  # noqa: E402

DOUBLE = jax.jit(lambda value: value * 2)


@pytest.fixture
def argument() -> Any:
    """An array that DOUBLE has been compiled for: its first call is not told."""
    array = jax.numpy.ones(4)
    DOUBLE(array)
    return array


def hook() -> Any:
    """What JAX calls now after each compiled function."""
    return jax._src.api._post_hook_state.get_global()


def in_a_thread(function: Callable[[], object]) -> None:
    """Run it elsewhere, to its end."""
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_the_last_output_of_another_thread_is_kept(argument: Any) -> None:
    """Of several calls the last one; of this thread's none; forgotten when it has been waited for."""
    seen = JaxDispatches()
    assert seen.open()
    try:
        DOUBLE(argument)
        in_a_thread(lambda: (DOUBLE(argument), DOUBLE(argument + 1)))
        outputs = seen.outputs()
    finally:
        seen.close()
    assert [output.tolist() for output in outputs] == [[4.0] * 4]
    seen.forget(outputs)
    assert seen.outputs() == []


def test_jax_is_left_as_it_was(argument: Any) -> None:
    """A hook that was there is called meanwhile and stands there again; opened twice, it is closed twice."""
    calls: list[Any] = []

    def theirs(*told: Any) -> None:
        calls.append(told[-1])

    before = hook()
    jax._src.api._post_hook_state.set_global(theirs)
    try:
        seen = JaxDispatches()
        assert seen.open()
        assert seen.open()
        in_a_thread(lambda: DOUBLE(argument))
        assert len(calls) == 1
        seen.close()
        assert hook() is not theirs
        seen.close()
        assert hook() is theirs
    finally:
        jax._src.api._post_hook_state.set_global(before)


def test_a_hook_that_came_later_stays(argument: Any) -> None:
    """Whoever put theirs in front of ours keeps it, and ours does nothing any more."""
    before = hook()
    seen = JaxDispatches()
    assert seen.open()
    later: list[Any] = []
    try:
        ours = hook()

        def theirs(*told: Any) -> None:
            later.append(told[-1])
            ours(*told)

        jax._src.api._post_hook_state.set_global(theirs)
        seen.close()
        assert hook() is theirs
        in_a_thread(lambda: DOUBLE(argument))
        assert len(later) == 1
        assert seen.outputs() == []
    finally:
        jax._src.api._post_hook_state.set_global(before)


def test_a_jax_without_the_hook_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is seen then, and nothing goes wrong."""
    monkeypatch.delattr(jax._src.api, "_post_hook_state")
    seen = JaxDispatches()
    assert not seen.open()
    assert seen.outputs() == []


def test_a_drain_waits_for_what_another_thread_dropped(backend: JaxBackend, pending: Callable[[], list[Any]]) -> None:
    """While a log is open; after the drain the thread's queue is empty."""
    pending()  # compiled by now
    backend.drain()
    log = backend.open_compile_log()
    try:
        last: list[Any] = []

        def work() -> None:
            last.extend(pending()[-1:])

        in_a_thread(work)
        outputs = backend._dispatches.outputs()
        assert len(outputs) == 1
        marker = backend.mark()
        assert marker is not None
        marker.finished_s()
        assert all(array.is_ready() for array in last)
        backend.drain()
        assert backend._dispatches.outputs() == []
    finally:
        log.close()
