"""``roofline predict`` in a test: its JSON, and its text."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from by_hand import Command, Json, Text

from pytest_roofline.cli import main


@pytest.fixture
def predicted(capsys: pytest.CaptureFixture[str]) -> Command:
    """The JSON of ``roofline predict`` with these arguments."""

    def run(arguments: str) -> Json:
        assert main(["predict", *shlex.split(arguments), "--json"]) == 0
        return dict(json.loads(capsys.readouterr().out))

    return run


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Text:
    """The text of it, its lines joined."""

    def run(arguments: str) -> str:
        assert main(["predict", *shlex.split(arguments)]) == 0
        return re.sub(r"\s+", " ", capsys.readouterr().out)

    return run
