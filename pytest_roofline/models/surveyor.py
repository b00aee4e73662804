"""What lies in the tensors that a traced step read: looked at later, while nothing is kept alive by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import torch

from pytest_roofline.models.byte_ranges import Range
from pytest_roofline.models.storages import Storage
from pytest_roofline.residency import Span, Survey, is_predictable, pattern_of, places

PageSurvey = Callable[[Sequence[Span]], "Survey | None"]
BLOCKS = 32
BLOCK_BYTES = 1024

_Held = tuple[torch.UntypedStorage, "list[Range]"]


class TensorSurveyor:
    """Knows storages by weak references, and which of their bytes the step needed from before it.

    Of tensors in the host's memory it looks at pages (once it was told how), of those on an accelerator at values: a
    few kilobytes of the bytes, copied to the host. Freed and resized ones are left out.
    """

    def __init__(self, storages: Iterable[Storage]) -> None:
        self._survey_pages: PageSurvey | None = None
        self._parts = [
            (storage.weak, storage.nbytes, list(storage.needed.ranges))
            for storage in storages
            if storage.existed and storage.needed
        ]

    def look_at_pages(self, survey_pages: PageSurvey) -> None:
        """How pages of this system are looked at, which is no matter of PyTorch's."""
        self._survey_pages = survey_pages

    def survey(self) -> Survey | None:
        """Look now; None where nothing can be known, whatever the reason."""
        held: list[_Held] = []
        with suppress(RuntimeError, AttributeError, TypeError, NotImplementedError):
            held = [
                (storage, ranges)
                for weak, nbytes, ranges in self._parts
                if (storage := _revived(weak)) is not None and storage.nbytes() == nbytes
            ]
        on_host = [part for part in held if part[0].device.type == "cpu"]
        elsewhere = [part for part in held if part[0].device.type not in ("cpu", "meta")]
        if _total_bytes(elsewhere) > _total_bytes(on_host):
            return _survey_values(elsewhere)
        return None if self._survey_pages is None else self._survey_pages(_spans(on_host))


def _revived(weak: Any) -> torch.UntypedStorage | None:
    """The storage behind a weak reference, held from here on; None when it is gone."""
    return None if weak.expired() else torch.UntypedStorage._new_with_weak_ptr(weak.cdata)


def _total_bytes(held: Sequence[_Held]) -> int:
    return sum(stop - start for _, ranges in held for start, stop in ranges)


def _spans(held: Sequence[_Held]) -> list[Span]:
    return [
        Span(start=address + start, length_bytes=stop - start)
        for storage, ranges in held
        if (address := storage.data_ptr())
        for start, stop in ranges
    ]


def _survey_values(held: Sequence[_Held]) -> Survey | None:
    """Sample blocks of what is on an accelerator."""
    pieces = [(storage, start, stop) for storage, ranges in held for start, stop in ranges]
    total_bytes = _total_bytes(held)
    try:
        blocks = [
            _block(pieces[index][0], pieces[index][1] + offset, pieces[index][2])
            for index, offset in places([stop - start for _, start, stop in pieces], BLOCKS)
        ]
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return None  # a lost device, a graph being captured, a kind of storage that cannot be looked into
    patterns = [block for block in blocks if is_predictable(block)]
    return Survey(
        predictable_bytes=total_bytes * len(patterns) / len(blocks) if blocks else None,
        sampled=len(blocks),
        pattern=pattern_of(patterns) if patterns else "",
        may_compress=_may_compress(held),
    )


def _block(storage: torch.UntypedStorage, start: int, stop: int) -> bytes:
    """Up to a kilobyte that ends where the piece does at the latest, from a whole item on."""
    first = max(0, min(start, stop - BLOCK_BYTES)) // 16 * 16
    with torch.no_grad(), torch.inference_mode(False):
        view = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(
            storage, first, (min(BLOCK_BYTES, stop - first),)
        )
        return bytes(view.cpu().tolist())


def _may_compress(held: Sequence[_Held]) -> bool:
    """Whether the device may move fewer bytes than there are.

    NVIDIA's compresses only memory that was allocated for it through the driver, which PyTorch does not ask for.
    """
    return any(storage.device.type != "cuda" for storage, _ in held) or torch.version.hip is not None
