"""What was tried, after a measurement, to see whether its passes did their work; evidence for `checks.work`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Fate = Literal["renewed", "untouched", "unwritten", "wakes-on-nan", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwritten:
    """What became of the memory of an output that was overwritten before a further pass.

    *renewed*: the pass wrote it, or returned other memory. *untouched*: it was returned again as it had been
    overwritten. *unwritten*: the pass returned memory that it had allocated, and nobody wrote. *wakes-on-nan*: left
    alone when overwritten with numbers, and written when overwritten with NaN. *unknown*: not tried; `reason` says why.
    """

    fate: Fate
    arrays: int = 0
    size_bytes: float = 0.0
    is_made_by_step: bool = False
    """An earlier pass was seen to make this memory or to write it."""
    is_work_seen: bool = False
    """That pass visibly read about as much as a pass should."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshInput:
    """Two passes from the same state on arguments of different values, and whether their outputs differ."""

    elements: int = 0
    """Floating elements compared."""
    is_identical: bool = False
    """Bit for bit, and not merely one number everywhere."""
    is_same_address: bool = False
    """The other values were put where the first had been."""
    reason: str = ""
    """Why nothing was compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Passes of the step against passes of the reference; errors relative to the reference's root mean square."""

    passes: int = 0
    worst_pass: int = 0
    """Counted from 1."""
    elements: int = 0
    rms_error: float = 0.0
    largest_error: float = 0.0
    tolerance: float = 0.0
    """For the root mean square; the largest error may be `LARGEST_ERROR_SHARE` times that."""
    dtype: str = ""
    ids: int = 0
    ids_differing: int = 0
    is_same_state: bool = True
    """Both began in the same state: there is a reset, or no state."""
    is_path_same: bool = True
    """Up to the worst pass both chose the same tokens, so that both had the same input there."""
    reason: str = ""
    """Why nothing was compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tampered:
    """A row of a weight was changed, and whether the output of a pass changed with it."""

    weights: tuple[str, ...] = ()
    """Shapes of the weights that were tried, one after the other."""
    is_changed: bool = False
    reason: str = ""
    """Why nothing was tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Whether the passes did their work, as far as that was tried after the measurement; None is not tried."""

    overwritten: Overwritten | None = None
    fresh_input: FreshInput | None = None
    compared: Compared | None = None
    tampered: Tampered | None = None
