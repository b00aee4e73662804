"""What the tests of llama-cpp-python share: a small file with random weights, written once."""

from __future__ import annotations

from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NEEDED = {"llama_cpp": "llama-cpp-python is not installed", "gguf": "gguf is not installed"}
"""No gap of CI's environments, which leave out what takes many minutes to compile."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip with the reason where one is missing."""
    missing = [reason for name, reason in NEEDED.items() if find_spec(name) is None]
    for item in items:
        if missing and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=missing[0]))


@pytest.fixture(scope="session")
def gguf_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """270 MB of F16."""
    spec = spec_from_file_location("tiny_gguf", EXAMPLES / "tiny_gguf.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.write_llama(tmp_path_factory.mktemp("gguf") / "tiny.gguf"))
