"""One recipe: a small program, what it is (a cheat, an undecidable case, an honest program), and how it must end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from corpus.scene import Scene, Size
from pytest_roofline.checks import CHECKS, Check
from pytest_roofline.errors import BogusMeasurement
from pytest_roofline.verdict import Verdict

Kind = Literal["bogus", "undecidable", "honest"]
Program: TypeAlias = "Callable[[Scene], Verdict | None]"
GRAVITY = ("passed", "failed", "inconclusive", "bogus")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a program ended: the gravest outcome of its results, and the checks that decided it, causes first."""

    outcome: str
    checks: tuple[str, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A program with its expected ending.

    *bogus*: ends BOGUS, the first finding being of one of `checks`. *undecidable*: ends INCONCLUSIVE by one of
    `checks`; without any, it lies inside every safe margin and must merely not be accused. *honest*: passes; where
    `checks` are given, it may instead be INCONCLUSIVE by one of those.
    """

    id: str
    title: str
    kind: Kind
    program: Program
    checks: tuple[str, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    """Of the device."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """Of the model."""
    at_least: float | None = 0.5

    def build(self, seed: int, size: Size, checks: tuple[Check, ...] = CHECKS) -> Callable[[], Ending]:
        """A callable that runs the program once, on a fresh fake device made from the seed."""

        def run() -> Ending:
            scene = Scene(
                f"{self.id}/{seed}", size, figures=self.figures, model=self.model, at_least=self.at_least, checks=checks
            )
            message = ""
            try:
                verdict = self.program(scene)
            except BogusMeasurement as error:
                verdict, message = error.verdict, str(error)
            verdicts = [result.verdict for result in scene.roofline.results]
            if verdict is not None:
                verdicts.append(verdict)
            return ending_of(verdicts, message)

        return run

    def is_met_by(self, ending: Ending) -> bool:
        """Whether the program ended as it must."""
        if self.kind == "bogus":
            return ending.outcome == "bogus" and ending.checks[0] in self.checks
        named = any(check in self.checks for check in ending.checks)
        if self.kind == "undecidable":
            return ending.outcome == "inconclusive" and named if self.checks else not is_accused(ending)
        return ending.outcome == "passed" or (ending.outcome == "inconclusive" and named)


def is_accused(ending: Ending) -> bool:
    """Whether somebody would have to defend this program."""
    return ending.outcome in ("bogus", "failed")


def ending_of(verdicts: list[Verdict], message: str = "") -> Ending:
    """The gravest of some verdicts."""
    if not verdicts:
        raise AssertionError("the program left no result")
    gravest = max(verdicts, key=lambda verdict: GRAVITY.index(verdict.outcome))
    return Ending(
        outcome=gravest.outcome,
        checks=tuple(finding.check for finding in gravest.of(gravest.outcome)),
        message=message or "; ".join(finding.message for finding in gravest.of(gravest.outcome)),
    )


def _decorator(kind: Kind) -> Callable[..., Callable[[Program], Recipe]]:
    def decorate(
        id_: str,
        *checks: str,
        at_least: float | None = 0.5,
        model: Mapping[str, Any] | None = None,
        title: str | None = None,
        **figures: Any,
    ) -> Callable[[Program], Recipe]:
        def make(program: Program) -> Recipe:
            return Recipe(
                id=id_,
                title=title or (program.__doc__ or "").strip().rstrip("."),
                kind=kind,
                program=program,
                checks=checks,
                figures=figures,
                model=model or {},
                at_least=at_least,
            )

        return make

    return decorate


bogus = _decorator("bogus")
undecidable = _decorator("undecidable")
honest = _decorator("honest")
