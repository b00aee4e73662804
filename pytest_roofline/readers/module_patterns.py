"""Patterns of module paths, all matched at once in one walk along a path: what a config lists must not hang anybody.

The position automaton of Glushkov (The abstract theory of automata, 1961): each character of a pattern is a position,
and a step leads from the positions that are reached to those that may follow. Steps are remembered, so that paths with
a common beginning cost it once. Nothing is tried twice, whatever is repeated or optional; how many steps are made in
all is bounded.

Known in an expression: characters, ``.``, ``\\`` before a sign, ``\\d``, ``\\w``, ``[...]``, groups, ``|``, ``*``,
``+``, ``?``, ``^`` at the beginning and ``$`` at the end. In a wildcard: ``*``, ``?``, ``[...]``.
"""

from __future__ import annotations

import string
from collections.abc import Iterable
from dataclasses import dataclass, field

MOST_STEPS = 2**21
"""From position to position, for all paths that are matched; a config of a thousand patterns takes some 10,000."""
_DEEPEST = 20
_END = "\n"
_DIGITS = frozenset(string.digits)
_WORD = frozenset(string.ascii_letters + string.digits + "_")
_SIGNS = frozenset("\\^$.|?*+()[]{}")


class PatternFault(Exception):
    """What is wrong with a pattern."""


@dataclass(frozen=True, slots=True)
class _Characters:
    """Those that stand at a position; `others`: all but those. The end of the path is only met by name."""

    known: frozenset[str]
    others: bool = False

    def __contains__(self, character: str) -> bool:
        return (character in self.known) is not self.others and (character != _END or not self.others)


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a pattern: whether it may be empty, where it may begin and end."""

    is_optional: bool
    first: frozenset[int]
    last: frozenset[int]


_ANY = _Characters(frozenset(), others=True)
_NOTHING = _Part(True, frozenset(), frozenset())


@dataclass(slots=True)
class ModulePatterns:
    """Wildcards, which match from any word of a path to its end or to the end of a word, and expressions, which match
    from its beginning as `re.match` does.

    `holds` raises PatternFault when the patterns took more than `MOST_STEPS` steps.
    """

    _characters: list[_Characters] = field(default_factory=list)
    _next: list[set[int]] = field(default_factory=list)
    _accepting: set[int] = field(default_factory=set)
    _word_begins: set[int] = field(default_factory=set)
    """Of wildcards: at the beginning of each word."""
    _matches_all: bool = False
    _start: frozenset[int] = frozenset()
    _known: dict[tuple[frozenset[int], str], frozenset[int] | None] = field(default_factory=dict)
    _steps: int = 0

    def add_expression(self, text: str) -> None:
        """An expression. Raises PatternFault for what is not known here."""
        parser = _Parser(self, text)
        whole = parser.alternatives(0)
        if parser.at < len(text):
            raise PatternFault("a closing bracket without an opening one")
        self._accepting |= whole.last
        self._matches_all |= whole.is_optional
        self._start |= whole.first

    def add_wildcard(self, text: str) -> None:
        """A path with ``*``. Raises PatternFault for a ``[`` without its end."""
        parser = _Parser(self, text)
        whole = _NOTHING
        while parser.at < len(text):
            whole = self.joined(whole, parser.wild())
        end = self.position(_Characters(frozenset({".", _END})))
        whole = self.joined(whole, end)
        self._accepting |= whole.last
        self._word_begins |= whole.first
        self._start |= whole.first

    def holds(self, path: str) -> bool:
        """Whether any pattern matches."""
        if self._matches_all:
            return True
        reached = self._start
        for character in f"{path}{_END}":
            key = (reached, character)
            if key not in self._known:
                self._known[key] = self._step(*key)
            following = self._known[key]
            if following is None:
                return True
            reached = following
        return False

    def _step(self, reached: frozenset[int], character: str) -> frozenset[int] | None:
        """What is reached behind this character; None where a pattern is at its end."""
        met = [position for position in reached if character in self._characters[position]]
        self._steps += 1 + len(reached) + sum(len(self._next[position]) for position in met)
        if self._steps > MOST_STEPS:
            raise PatternFault(f"more than {MOST_STEPS:,} steps to match them")
        if not self._accepting.isdisjoint(met):
            return None
        following = self._word_begins if character == "." else set()
        return frozenset(following.union(*(self._next[position] for position in met)))

    def position(self, characters: _Characters) -> _Part:
        """A part of one character."""
        self._characters.append(characters)
        self._next.append(set())
        place = frozenset({len(self._next) - 1})
        return _Part(False, place, place)

    def joined(self, left: _Part, right: _Part) -> _Part:
        """One part behind the other."""
        for position in left.last:
            self._next[position] |= right.first
        return _Part(
            left.is_optional and right.is_optional,
            left.first | right.first if left.is_optional else left.first,
            left.last | right.last if right.is_optional else right.last,
        )

    def repeated(self, part: _Part) -> _Part:
        """The part once or more."""
        return self.joined(part, part)


@dataclass(slots=True)
class _Parser:
    """Walks along one pattern."""

    patterns: ModulePatterns
    text: str
    at: int = 0

    def alternatives(self, depth: int) -> _Part:
        if depth > _DEEPEST:
            raise PatternFault(f"groups over {_DEEPEST} deep")
        found = [self.sequence(depth)]
        while self.take("|"):
            found.append(self.sequence(depth))
        return _either(found)

    def sequence(self, depth: int) -> _Part:
        whole = _NOTHING
        begin = self.at
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            if self.text[self.at] == "^" and self.at == begin and depth == 0:
                self.at += 1
                continue
            whole = self.patterns.joined(whole, self.repetition(self.atom(depth)))
        return whole

    def repetition(self, part: _Part) -> _Part:
        while self.at < len(self.text) and self.text[self.at] in "*+?":
            sign = self.text[self.at]
            self.at += 1
            if sign != "?":
                part = self.patterns.repeated(part)
            if sign != "+":
                part = _Part(True, part.first, part.last)
        return part

    def atom(self, depth: int) -> _Part:
        character = self.text[self.at]
        self.at += 1
        if character == "(":
            if self.take("?") and not self.take(":"):
                raise PatternFault("'(?' is known as '(?:' only")
            inner = self.alternatives(depth + 1)
            if not self.take(")"):
                raise PatternFault("an opening bracket without a closing one")
            return inner
        if character == "[":
            return self.patterns.position(self.characters())
        if character == "$":
            return self.patterns.position(_Characters(frozenset({_END})))
        if character == "\\":
            return self.patterns.position(self.escaped())
        if character in "*+?{}^]":
            raise PatternFault(f"{character!r} is not known in this place")
        return self.patterns.position(_ANY if character == "." else _Characters(frozenset({character})))

    def wild(self) -> _Part:
        """One sign of a wildcard."""
        character = self.text[self.at]
        self.at += 1
        if character == "*":
            star = self.patterns.repeated(self.patterns.position(_ANY))
            return _Part(True, star.first, star.last)
        if character == "[":
            return self.patterns.position(self.characters())
        return self.patterns.position(_ANY if character == "?" else _Characters(frozenset({character})))

    def escaped(self) -> _Characters:
        sign = self.text[self.at : self.at + 1]
        self.at += 1
        if sign in ("d", "w"):
            return _Characters(_DIGITS if sign == "d" else _WORD)
        if sign not in _SIGNS and sign not in tuple("-_/ :"):
            raise PatternFault(f"'\\{sign}' is not known")
        return _Characters(frozenset({sign}))

    def characters(self) -> _Characters:
        """Those in square brackets."""
        others = self.take("^") or self.take("!")
        found: set[str] = set()
        begin = self.at
        while not (self.text[self.at : self.at + 1] == "]" and self.at > begin):
            if self.at >= len(self.text):
                raise PatternFault("'[' without its ']'")
            character = self.text[self.at]
            self.at += 1
            if character == "\\":
                found |= self.escaped().known
            elif self.text[self.at : self.at + 1] == "-" and self.text[self.at + 1 : self.at + 2] not in ("", "]"):
                last = self.text[self.at + 1]
                self.at += 2
                if not character <= last <= "\x7f":
                    raise PatternFault(f"'{character}-{last}' is no range of ASCII")
                found |= set(map(chr, range(ord(character), ord(last) + 1)))
            else:
                found.add(character)
        self.at += 1
        return _Characters(frozenset(found), others=others)

    def take(self, sign: str) -> bool:
        """Step over a sign where it stands next."""
        if self.text.startswith(sign, self.at):
            self.at += 1
            return True
        return False


def _either(parts: Iterable[_Part]) -> _Part:
    parts = list(parts)
    return _Part(
        any(part.is_optional for part in parts),
        frozenset().union(*(part.first for part in parts)),
        frozenset().union(*(part.last for part in parts)),
    )
