"""What other plugins and a project's root conftest may implement.

Every hook is called in the process that measures: with pytest-xdist that is the worker. Each example is run by the
tests of this package.

No run loads this room: `plugin` declares the names alone, because every run of every project would pay for the words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_roofline.checks import Check
    from pytest_roofline.probe import Probe
    from pytest_roofline.protocol import Backend
    from pytest_roofline.result import Result
    from pytest_roofline.traffic import Traffic


def pytest_roofline_backends(config: pytest.Config) -> Sequence[Backend] | None:
    """Add backends: a device of your own, or the fake one to test your suite without any.

    Called once per process, when the first test that uses roofline begins. The results of all implementations are
    put together; None adds nothing. Devices of added backends come before those that are found, so that the first one
    is the default. Anything but a sequence of backends is a usage error. ::

        # conftest.py
        from pytest_roofline.backends.fake import FakeBackend

        BACKEND = FakeBackend(read_bytes_per_s=2e12)

        def pytest_roofline_backends(config):
            return [BACKEND]

        # test_example.py
        def test_device(roofline_device):
            assert roofline_device.id == "fake:0"
    """


def pytest_roofline_checks(config: pytest.Config) -> Sequence[Check] | None:
    """Add checks of your own: functions from the evidence of one result to a finding, or to None for no objection.

    Called once per process, when the first test that uses roofline begins. The results of all implementations run
    after the checks of this package; None adds nothing. Anything but a sequence of callables is a usage error. A
    finding's `severity` decides: `bogus`, `inconclusive` or `note`. ::

        # conftest.py
        import pytest
        from pytest_roofline import Finding
        from pytest_roofline.backends.fake import FakeBackend, FakeModel

        BACKEND = FakeBackend()

        def small_batch(evidence):
            if evidence.batch < 8:
                return Finding(check="small-batch", severity="note", message=f"a batch of {evidence.batch}")
            return None

        def pytest_roofline_backends(config):
            return [BACKEND]

        def pytest_roofline_checks(config):
            return [small_batch]

        @pytest.fixture
        def model():
            return FakeModel(BACKEND, weight_bytes=2e9)

        # test_example.py
        def test_step(roofline, model):
            result = roofline.decode(model.step, model=model)
            assert "a batch of 1" in [finding.message for finding in result.findings]
    """


@pytest.hookspec(firstresult=True)
def pytest_roofline_traffic(
    config: pytest.Config, model: object, batch: int | None, context: int | None
) -> Traffic | float | None:
    """Count the bytes of a decode pass of a model that this package does not know, or that you know better.

    Called whenever bytes are to be taken from a model, or from what is given as ``traffic=``: by `decode`, `audit`,
    `traffic` and `ceiling`; not by `prefill`, and not for a Traffic or a plain number. `batch` and `context` are what
    the test said, None where it said nothing. The first of the implementations that returns something is believed, as
    if the test had declared it: a traced pass is compared with it. A Traffic, or bytes per pass; None where you do not
    know the model. Anything else is a usage error. ::

        # conftest.py
        from pytest_roofline.backends.fake import FakeBackend

        class Engine:
            weight_bytes = 4e9

        def pytest_roofline_backends(config):
            return [FakeBackend()]

        def pytest_roofline_traffic(config, model, batch, context):
            return model.weight_bytes if isinstance(model, Engine) else None

        # test_example.py
        from conftest import Engine

        def test_bytes(roofline):
            assert roofline.traffic(Engine()).bytes_per_pass == 4e9
    """


def pytest_roofline_probe_finished(probe: Probe) -> None:
    """Look at a probe: to log what this machine does today, or to refuse it by raising.

    Called after the probe of each device, once per process and device, before anything is judged by it. All
    implementations are called; what they return is ignored. What one raises ends the test that asked for the probe. ::

        # conftest.py
        from pytest_roofline.backends.fake import FakeBackend

        SEEN = []

        def pytest_roofline_backends(config):
            return [FakeBackend(read_bytes_per_s=2e12)]

        def pytest_roofline_probe_finished(probe):
            SEEN.append(probe.read_bytes_per_s)

        # test_example.py
        from conftest import SEEN

        def test_probe(roofline_probe):
            assert SEEN == [roofline_probe.read_bytes_per_s]
    """


def pytest_roofline_verdict_reached(result: Result, item: pytest.Item) -> None:
    """Look at a result as soon as it is judged, also at a bogus one, before that raises.

    Called in the middle of the test, once per result. All implementations are called; what they return is ignored.
    What one raises comes out of the measuring call. ::

        # conftest.py
        import pytest
        from pytest_roofline.backends.fake import FakeBackend, FakeModel

        BACKEND = FakeBackend()
        SEEN = []

        def pytest_roofline_backends(config):
            return [BACKEND]

        def pytest_roofline_verdict_reached(result, item):
            SEEN.append((item.name, result.label, result.verdict.outcome))

        @pytest.fixture
        def model():
            return FakeModel(BACKEND, weight_bytes=2e9)

        # test_example.py
        from conftest import SEEN

        def test_step(roofline, model):
            roofline.decode(model.step, model=model)
            assert SEEN == [("test_step", "step", "passed")]
    """
