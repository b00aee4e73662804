"""``roofline predict`` in a test: a spec file, a config, and what the command prints or refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from predict_inputs import CONFIG, SPECS

from pytest_roofline.cli import main


@pytest.fixture
def specs(tmp_path: Path) -> str:
    """A folder with one card."""
    (tmp_path / "cards.yaml").write_text(SPECS, encoding="utf-8")
    return str(tmp_path)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A small llama's config.json in a folder of its own."""
    folder = tmp_path / "small-llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    return folder


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Any:
    """What ``roofline predict`` prints."""

    def run(*arguments: str) -> str:
        assert main(["predict", *arguments]) == 0
        return capsys.readouterr().out

    return run


@pytest.fixture
def predicted(said: Any) -> Any:
    """What ``roofline predict --json`` prints, read again."""

    def run(*arguments: str) -> dict[str, Any]:
        return dict(json.loads(said(*arguments, "--json")))

    return run


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Any:
    """What it says on stderr when it exits with 2; nothing is on stdout."""

    def run(*arguments: str) -> str:
        try:
            status = main(["predict", *arguments])
        except SystemExit as ended:
            status = int(ended.code or 0)
        captured = capsys.readouterr()
        assert (status, captured.out) == (2, "")
        return captured.err.removeprefix("roofline predict: ").rstrip("\n")

    return run
