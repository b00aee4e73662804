"""Which patterns fit a test id, the most specific one first.

``*`` stands for any characters (``/`` and ``::`` among them) and ``?`` for one; everything else, the brackets of a
parametrized test too, stands for itself. Case counts. The id itself goes before every pattern; of two patterns that
fit, the one with more characters that stand for themselves, then the one with fewer ``*``.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence

WILD = re.compile(r"[*?]")


def is_wild(pattern: str) -> bool:
    """Whether it can fit more than one id."""
    return WILD.search(pattern) is not None


def rank(pattern: str, test_id: str) -> tuple[bool, int, int]:
    """The place of a pattern that fits among others that do; the lowest is the most specific one."""
    return pattern != test_id, -len(WILD.sub("", pattern)), pattern.count("*")


def ungrouped(test_id: str) -> str:
    """The id of a test without the group that pytest-xdist puts behind it with --dist=loadgroup."""
    at = test_id.rfind("@")
    return test_id[:at] if at > max(test_id.rfind("]"), test_id.rfind("::")) else test_id


class PatternIndex:
    """Patterns, ready to be asked which of them fit."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._plain = {pattern: at for at, pattern in enumerate(patterns)}
        self._wild = [(at, pattern, _compiled(pattern)) for at, pattern in enumerate(patterns) if is_wild(pattern)]

    def fitting(self, test_id: str) -> list[int]:
        """Indices of the patterns that fit, the most specific first; where two tie, as they were given."""
        fits = [(rank(pattern, test_id), at) for at, pattern, expression in self._wild if expression.match(test_id)]
        at = self._plain.get(test_id)
        if at is not None and not is_wild(test_id):
            fits.append((rank(test_id, test_id), at))
        return [at for _, at in sorted(fits)]


def _compiled(pattern: str) -> re.Pattern[str]:
    # The translation of fnmatch backtracks no further than the last star, however many there are.
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")))
