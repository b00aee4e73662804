"""``python -m pytest_roofline``: the same as the command ``roofline``."""

from __future__ import annotations

import sys

from pytest_roofline.cli import main

if __name__ == "__main__":
    sys.exit(main())
