"""What lies in the JAX arrays that a traced step read: pages of the host alone.

An array made from the host's memory without a copy may lie in pages that nobody ever wrote. Arrays on an accelerator
are not looked into: taking a few values out of them would have XLA compile a program for each shape.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from pytest_roofline.backends.jax_views import Root
from pytest_roofline.backends.pages import survey_pages
from pytest_roofline.residency import Span, Survey

WHOLE_SHARE = 0.99
"""Where in an array a smaller part was read is not known, and so not looked at."""


class JaxSurveyor:
    """Knows arrays by weak references; donated, deleted and sharded ones are left out."""

    def __init__(self, arrays: Iterable[Any], roots: dict[int, Root]) -> None:
        self._arrays = [
            weakref.ref(array)
            for array in arrays
            if (root := roots.get(id(array))) is not None and root.least_bytes >= WHOLE_SHARE * root.nbytes
        ]

    def survey(self) -> Survey | None:
        """Look at the pages behind the arrays that are still there; None where nothing can be known."""
        spans = []
        for reference in self._arrays:
            array = reference()
            # RuntimeError: a deleted array, or one in several pieces, has no address.
            with suppress(RuntimeError, ValueError, AttributeError, TypeError, NotImplementedError):
                if array is not None and {device.platform for device in array.devices()} == {"cpu"}:
                    spans.append(Span(start=array.unsafe_buffer_pointer(), length_bytes=int(array.nbytes)))
        return survey_pages(spans)
