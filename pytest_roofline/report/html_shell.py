"""One HTML file that holds everything it needs, works from `file://`, and can ask the network for nothing.

The data and the chart library travel as gzip in base64: nothing that a test id may hold can end an element there. The
page's Content-Security-Policy allows the two scripts by their hashes and no other, so what slipped into the page all
the same would not run, and forbids every request. Of equal input the file is equal, byte for byte.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from pytest_roofline.errors import MissingDependency

NEEDS_PLOTLY = "an HTML page needs plotly, which is not installed: pip install 'pytest-roofline[report]'"
_POLICY = (
    "default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)


def page_of(
    *, title: str, styles: Iterable[str], scripts: Iterable[str], data: Mapping[str, Any], fallback: str
) -> str:
    """The page: its scripts and styles are assets of this package by name, `data` is what the scripts read.

    `fallback` is HTML for readers whose browser runs no scripts; whoever makes it has escaped it. MissingDependency
    without plotly.
    """
    library = chart_library()
    style = "\n".join(asset(name) for name in styles)
    script = "(() => {\n'use strict';\n" + "\n".join(asset(name) for name in scripts) + "\n})();"
    packed_data = _packed(json.dumps(data, allow_nan=False, separators=(",", ":")))
    policy = _POLICY.format(hashes=f"{_hash_of(script)} {_hash_of(library)}")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{html.escape(title)}</title>
<style>{style}</style>
</head>
<body>
<noscript>{fallback}</noscript>
<div id="page" aria-busy="true"></div>
<script type="application/octet-stream" id="data">{packed_data}</script>
<script type="application/octet-stream" id="library">{_packed(library)}</script>
<script>{script}</script>
</body>
</html>
"""


def asset(name: str) -> str:
    """The text of a file in `report/page/`."""
    return (files("pytest_roofline.report") / "page" / name).read_text(encoding="utf-8").replace("\r\n", "\n")


def chart_library() -> str:
    """plotly.js as the Python package plotly carries it. MissingDependency without that."""
    try:
        import plotly
    except ImportError as error:
        raise MissingDependency(NEEDS_PLOTLY) from error
    return (files(plotly) / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")


def _hash_of(script: str) -> str:
    """How a Content-Security-Policy names an inline script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode('ascii')}'"
