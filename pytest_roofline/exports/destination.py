"""Where exports go: files, GitHub's summary of the step, or the output of the run itself."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_roofline.exports import github_annotations, github_summary
from pytest_roofline.exports.measured import true_figures, verdicts_in
from pytest_roofline.exports.registry import Export
from pytest_roofline.whole_file import write_whole

SUMMARY = "GITHUB_STEP_SUMMARY"
WORKSPACE = "GITHUB_WORKSPACE"


def write_exports(
    document: Mapping[str, Any],
    exports: Sequence[Export],
    *,
    folder: str,
    environment: Mapping[str, str],
    root: str = "",
) -> Iterator[str]:
    """Write each export below `folder`, and say where it is; workflow commands are among the lines, each by itself.

    `root` is where the ids of tests begin, for paths in a repository. Files are replaced whole or not at all; GitHub's
    summary is appended to, for other tools of the step write there too. OSError where a file cannot be written, once
    the others are.
    """
    failure: OSError | None = None
    for export in exports:
        try:
            yield from _written(document, export, folder, environment, root)
        except OSError as error:
            failure = failure or error
    if failure is not None:
        raise failure


def target_of(export: Export, folder: str) -> str | None:
    """The file of an export, below `folder`; None for what goes to the step's summary or to the terminal."""
    name = export.format.name
    if export.file is None and name in (github_annotations.NAME, github_summary.NAME):
        return None
    return os.path.join(folder, export.file or export.format.file or name)


def _written(
    document: Mapping[str, Any], export: Export, folder: str, environment: Mapping[str, str], root: str
) -> list[str]:
    name = export.format.name
    if name == github_annotations.NAME:
        text = github_annotations.github_annotations(document, _in_repository(root, environment))
        if export.file is None:
            return text.splitlines()
        return _replaced(document, export, os.path.join(folder, export.file), text)
    if name == github_summary.NAME:
        return _appended(document, export, folder, environment)
    path = os.path.join(folder, export.file or export.format.file or name)
    return _replaced(document, export, path, export.format.render(document))


def _appended(document: Mapping[str, Any], export: Export, folder: str, environment: Mapping[str, str]) -> list[str]:
    """A named file gets the summary alone; the step's own is added to, in the room that is left there."""
    if export.file is not None:
        path = os.path.join(folder, export.file)
        return _replaced(document, export, path, github_summary.github_summary(document))
    path = environment.get(SUMMARY, "")
    if not path:
        return [f"{export.format.name}: not written, {SUMMARY} is not set here; name a file: {export.format.name}=FILE"]
    there = os.path.getsize(path) if os.path.exists(path) else 0
    text = github_summary.github_summary(document, github_summary.ROOM_BYTES - there)
    if not text:
        return [f"{export.format.name}: not written, the summary of this step has no room left"]
    with open(path, "a", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        file.write(text)
    return [_said(document, export, path)]


def _replaced(document: Mapping[str, Any], export: Export, path: str, text: str) -> list[str]:
    write_whole(path, text.encode("utf-8", "backslashreplace"))
    return [_said(document, export, path)]


def _said(document: Mapping[str, Any], export: Export, path: str) -> str:
    """Where it is, and what is in it: what was refused or not judged is missed by whoever reads figures alone."""
    count = len(true_figures(document))
    verdicts = verdicts_in(document)
    without = [f"{verdicts[word]} {word}" for word in ("bogus", "inconclusive") if verdicts[word]]
    left_out = f" (without figures: {', '.join(without)})" if without else ""
    return f"{export.format.name}: {count} result{'' if count == 1 else 's'} in {path}{left_out}"


def _in_repository(root: str, environment: Mapping[str, str]) -> str:
    """Where the root of the tests lies below the repository's, as GitHub checked it out; empty where it is the same."""
    workspace = environment.get(WORKSPACE, "")
    if not root or not workspace:
        return ""
    try:
        below = os.path.relpath(os.path.realpath(root), os.path.realpath(workspace)).replace(os.sep, "/")
    except ValueError:  # another drive
        return ""
    return "" if below == "." or below == ".." or below.startswith("../") else below
