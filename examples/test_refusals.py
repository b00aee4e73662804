"""What is refused, and in which words: each file in `refused/` runs in a pytest of its own, and must not pass."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
UNDECIDED = "device-shared|drifted|ceiling-unsure|too-few-samples|does-not-scale"
BUSY = re.compile(rf"^INCONCLUSIVE .*(\[({UNDECIDED})\]|cannot be told from the noise.*)$", re.MULTILINE)
"""A machine that is too busy to tell: said by the tool, instead of a verdict that somebody else's load decides."""
CASES = {
    "slow_path.py": ("FAILED", r"BelowCeiling: \d+.* of the probed read ceiling .* the test asks for 20 %"),
    "undrained_jax.py": ("BOGUS", r"the clock stopped at .* but the device finished at .*: missing synchronization"),
    "copy_counted_once.py": ("FAILED", r"the 268 MB that are written were forgotten"),
    "cached_buffer.py": ("INCONCLUSIVE", r"a pass touches 2\.10 MB and up to .* of it can come from cache"),
    "forgotten_kv_cache.py": ("FAILED", r"the KV cache \(403 MB per pass\) was forgotten"),
}


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str) -> None:
    """The child's verdict and its first line are what this table says, or nothing is judged; it is all printed."""
    for module in ("torch", "transformers", *(["jax"] if "jax" in name else [])):
        pytest.importorskip(module)
    word, message = CASES[name]
    child = subprocess.run(
        [sys.executable, "-m", "pytest", f"refused/{name}", "-q", "-rfEs", "--roofline-inconclusive=fail"],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
    )
    print(child.stdout)
    assert child.returncode == 1, child.stdout + child.stderr
    is_shown = word in child.stdout and re.search(message, child.stdout) is not None
    if not is_shown and (reason := BUSY.search(child.stdout)):
        pytest.skip(f"not shown today: {reason.group()}")
    assert is_shown, f"{word}: {message}"
