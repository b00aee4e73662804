"""Moved to pytest_roofline.protocol."""

from pytest_roofline.protocol import *  # noqa: F403
