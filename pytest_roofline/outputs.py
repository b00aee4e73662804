"""What is made of a finished run, beside its file of results: each is one entry here, and is loaded where it is asked.

::

    option given -> maker(config, value) before the first test -> Output -> write(document) after the last

`document` is what `results.reading.read_results` gives: a plain dict with every test of the run, and its end.
"""

# To add an output:
#   1. an Option in options.py (with a reader of given.py), and its name in hall.OUTPUTS;
#   2. a maker here, which imports its room inside (an unasked output must not be loaded), and a line in MAKERS.
# A maker gets `pytest.Config` and the value as its reader returned it; paths go through `path_in`. RooflineUsageError
# there ends the session as a usage error, before anything is measured. `write` returns lines for the terminal summary;
# where it raises OSError or a RooflineError that becomes one red line, and with --roofline=require a red run.

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.whole_file import obstacle_of

if TYPE_CHECKING:
    import pytest

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One thing that is made of a finished run; `write` returns lines for the terminal summary.

    With a `section` its lines stand below that title, else below the table.
    """

    write: Callable[[Document], Iterable[str]]
    section: str | None = None


def path_in(config: pytest.Config, path: str) -> str:
    """A path of an option, from where pytest was started: tests may change the folder meanwhile."""
    return os.path.join(config.invocation_params.dir, path)


def check_target(path: str, where: str) -> None:
    """RooflineUsageError where it is known already that no file can be put there; nothing is made or changed.

    `where` is what was asked for: the option and the name as it was given.
    """
    if obstacle := obstacle_of(path):
        raise RooflineUsageError(f"{where} cannot be written: {obstacle}")


def exports(config: pytest.Config, asked: Any) -> Output:
    """What ``--roofline-export`` asks for: files, and lines that a CI system reads."""
    from pytest_roofline.exports.destination import target_of, write_exports

    folder, root = str(config.invocation_params.dir), str(config.rootpath)
    for export in asked:
        if (target := target_of(export, folder)) is not None:
            check_target(target, f"--roofline-export: {export.file or export.format.file!r}")

    def write(document: Document) -> Iterable[str]:
        return write_exports(document, asked, folder=folder, environment=os.environ, root=root)

    return Output(write=write)


def html(config: pytest.Config, path: str) -> Output:
    """The page of ``--roofline-html``; without plotly that is said before anything is measured."""
    from pytest_roofline.report.html import write_html
    from pytest_roofline.report.html_shell import chart_library

    file = path_in(config, path)
    chart_library()
    check_target(file, f"--roofline-html: {path!r}")

    def write(document: Document) -> Iterable[str]:
        write_html(document, file)
        return [f"report: {path}"]

    return Output(write=write)


def compare(config: pytest.Config, path: str) -> Output:
    """What changed since the run of ``--roofline-compare``, whose file is read before this run may write over it.

    Where nothing could be compared that is a warning, and with --roofline=require an error.
    """
    from pytest_roofline.comparison.runs import compare_runs
    from pytest_roofline.given import resolve
    from pytest_roofline.report.comparison import comparison_lines
    from pytest_roofline.results.reading import cut_off, results_given

    old = results_given(path_in(config, path), "--roofline-compare")
    cut = cut_off(old)

    is_required = resolve(config, "mode") == "require"

    def write(document: Document) -> Iterable[str]:
        found = compare_runs(old, document)
        yield from comparison_lines(found, old_name=path, notes=[f"{path}: {cut}"] if cut else [])
        if found.nothing_compared and is_required:
            raise RooflineUsageError(found.nothing_compared)
        if found.nothing_compared:
            yield f"WARNING: {found.nothing_compared}"

    return Output(write=write, section="roofline compare")


def update_budgets(config: pytest.Config, consent: str) -> Output:
    """The file of budgets, brought up to date; one that cannot be is refused before anything is measured."""
    from pytest_roofline.budgets.storage import check_writable
    from pytest_roofline.budgets.updates import update
    from pytest_roofline.given import budgets_of, budgets_path, has_groups

    path, name = budgets_path(config) or ("", "")
    budgets_of(config)
    check_writable(path, name)
    is_grouped = has_groups(config)

    def write(document: Document) -> Iterable[str]:
        return update(path, name, document, loosen=consent == "loosen", is_grouped=is_grouped)

    return Output(write=write)


MAKERS: Mapping[str, Callable[[pytest.Config, Any], Output]] = MappingProxyType(
    {"html": html, "export": exports, "compare": compare, "update_budgets": update_budgets}
)
"""By the name of the option that asks for it."""
