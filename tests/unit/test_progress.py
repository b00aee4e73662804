"""The line of progress on a terminal of its own: where it is drawn, how often, and that nothing is left of it."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeModel
from pytest_roofline.loop import Loop
from pytest_roofline.measure import Measurement
from pytest_roofline.progress import NOBODY
from pytest_roofline.report.progress import TerminalOnlooker, is_looked_at

if sys.platform == "win32":
    pytest.skip("there is no pty here", allow_module_level=True)
pyte = pytest.importorskip("pyte")

TERMINAL = {"TERM": "xterm"}
ROWS = 6


class Writer:
    """What pytest's terminal writer says of itself."""

    def __init__(self) -> None:
        self.hasmarkup = False
        self.fullwidth = 80
        self.width_of_current_line = 0


class Desk:
    """A terminal that is looked at: `columns` wide and six rows high."""

    def __init__(self) -> None:
        self.ours, theirs = os.openpty()
        self.stream = os.fdopen(theirs, "w", encoding="utf-8")
        self.writer = Writer()
        self.now_s = 0.0
        self.seen = b""
        self.screen = pyte.Screen(self.writer.fullwidth, ROWS)
        self.decoder = pyte.ByteStream(self.screen)
        self.environment = {"PYTEST_CURRENT_TEST": "tests/test_a.py::test_it (call)"}
        self.onlooker = TerminalOnlooker(
            self.stream, self.writer, environment=self.environment, clock=lambda: self.now_s
        )

    def print(self, text: str) -> None:
        """As pytest prints."""
        self.stream.write(text)
        self.stream.flush()
        self.writer.width_of_current_line = len(text.rpartition("\n")[2])

    def tell(self, stage: str = "warming up", **figures: Any) -> None:
        """After more than the shortest time between two drawings."""
        self.now_s += 1.0
        self.onlooker.tell(stage, **figures)

    def rows(self) -> list[str]:
        """What is on the screen now, without its empty end."""
        os.set_blocking(self.ours, False)
        try:
            while piece := os.read(self.ours, 65536):
                self.seen += piece
                self.decoder.feed(piece)
        except BlockingIOError:
            pass
        return [row.rstrip() for row in "\n".join(row.rstrip() for row in self.screen.display).rstrip().split("\n")]


@pytest.fixture
def desk() -> Iterator[Desk]:
    """A terminal, in the test ``test_a.py::test_it``."""
    found = Desk()
    yield found
    found.onlooker.close()
    found.stream.close()
    os.close(found.ours)


def test_the_line_stands_below_and_the_cursor_stays(desk: Desk) -> None:
    """Pytest goes on where it was, and what is left at the end is what it wrote."""
    desk.print("test_a.py .")
    with desk.onlooker.watching():
        desk.tell("sample 7", fractions=[0.5, 0.61, 0.7], elapsed_s=3.2, limit_s=10.0)
        assert desk.rows() == ["test_a.py .", "roofline test_it: sample 7, 61 % so far, 3.2 of 10 s"]
        assert (desk.screen.cursor.y, desk.screen.cursor.x) == (0, 11)
    desk.print(".F\n")
    assert desk.rows() == ["test_a.py ..F"]


def test_the_line_is_drawn_below_the_last_row_too(desk: Desk) -> None:
    """Where there is no row below, the screen scrolls by one, and the cursor goes with its text."""
    desk.print("\n".join(f"row {number}" for number in range(ROWS)))
    with desk.onlooker.watching():
        for stage in ("first", "second"):
            desk.tell(stage)
            assert desk.rows() == [f"row {number}" for number in range(1, ROWS)] + [f"roofline test_it: {stage}"]
    desk.print(" and more")
    assert desk.rows() == [*(f"row {number}" for number in range(1, ROWS - 1)), f"row {ROWS - 1} and more"]


def test_it_is_drawn_some_times_a_second(desk: Desk) -> None:
    """A stage that will soon be told again waits its turn; one without a time does not, for it may last."""
    with desk.onlooker.watching():
        for count in range(100):
            desk.now_s += 0.01
            desk.onlooker.tell(f"sample {count}", elapsed_s=0.1)
        desk.rows()
        assert 4 <= desk.seen.count(b"sample") <= 6
        desk.onlooker.tell("the first pass")
        assert "the first pass" in desk.rows()[1]


def test_nothing_is_drawn_outside_of_a_measurement(desk: Desk) -> None:
    """Nor cleared where nothing was drawn: the terminal gets no byte."""
    desk.tell()
    with desk.onlooker.watching():
        pass
    desk.onlooker.clear()
    desk.rows()
    assert desk.seen == b""


def test_nested_measurements_are_one(desk: Desk) -> None:
    """A probe inside a test's measurement leaves the line to it."""
    with desk.onlooker.watching():
        with desk.onlooker.watching():
            desk.tell("probing")
        assert "probing" in desk.rows()[1]
    assert desk.rows() == [""]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_however_it_ends_nothing_is_left(desk: Desk, error: type[BaseException]) -> None:
    """Ctrl-C in the middle of a measurement leaves a clean line."""
    desk.print("test_a.py ")
    with pytest.raises(error), desk.onlooker.watching():
        desk.tell()
        assert len(desk.rows()) == 2
        raise error
    assert desk.rows() == ["test_a.py"]


def test_a_line_that_ends_at_the_edge_is_left_alone(desk: Desk) -> None:
    """The cursor behind the last column cannot be brought back there."""
    desk.print("x" * 80)
    with desk.onlooker.watching():
        desk.tell()
    desk.print("y")
    assert desk.rows() == ["x" * 80, "y"]


@pytest.mark.parametrize("width", [80, 60, 40])
def test_a_long_name_is_shortened_in_its_middle(desk: Desk, width: int) -> None:
    """The figures stay whole, and so does the row: nothing wraps."""
    desk.environment["PYTEST_CURRENT_TEST"] = f"a.py::test_{'解' * 60}[bf16-2048] (call)"
    desk.writer.fullwidth = width
    with desk.onlooker.watching():
        desk.tell("sample 12", fractions=[0.61], elapsed_s=3.2, limit_s=10.0)
        (row,) = [row for row in desk.rows() if row]
    assert row.endswith("sample 12, 61 % so far, 3.2 of 10 s"[: width - 10])
    if width == 80:
        assert row.startswith("roofline test_")
        assert "...".join(("", "")) in row
        assert "2048]: " in row


def test_a_hostile_name_moves_no_cursor(desk: Desk) -> None:
    """Escapes, line ends and turned directions of writing are printed, not obeyed."""
    desk.environment["PYTEST_CURRENT_TEST"] = "a.py::t[\x1b[2J\x1b[H\r\n\x07\u202e] (call)"
    desk.print("kept")
    with desk.onlooker.watching():
        desk.tell("\x1b[2Jprobing")
        assert desk.rows() == ["kept", r"roofline t[\x1b[2J\x1b[H\r\n\x07\u202e]: \x1b[2Jprobing"]


def test_colours_are_those_that_pytest_writes(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """None where it writes none, whatever rich would do."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    with desk.onlooker.watching():
        desk.tell()
        desk.rows()
        assert b"m" not in desk.seen.replace(b"roofline test_it: warming up", b"")
        monkeypatch.setenv("NO_COLOR", "1")
        desk.writer.hasmarkup = True
        desk.tell()
        assert desk.rows()[1] == "roofline test_it: warming up"
    assert b"\x1b[36m" in desk.seen


def test_a_terminal_that_takes_no_more_is_not_waited_for(desk: Desk) -> None:
    """Stopped, or at the end of a slow line: the measurement goes on."""
    with desk.onlooker.watching():
        os.set_blocking(desk.stream.fileno(), False)
        with pytest.raises(BlockingIOError):
            while True:
                os.write(desk.stream.fileno(), b"x" * 1024)
        desk.tell("never seen")
        desk.rows()
    assert b"never seen" not in desk.seen


@pytest.mark.parametrize(
    ("environment", "seen"),
    [
        (TERMINAL, True),
        ({**TERMINAL, "CI": ""}, True),
        ({**TERMINAL, "CI": "true"}, False),
        ({**TERMINAL, "BUILD_NUMBER": "7"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_who_looks(desk: Desk, environment: dict[str, str], seen: bool) -> None:
    """A person at a terminal that can draw; no log of a CI system, which may well be a terminal."""
    assert is_looked_at(desk.stream, environment) is seen
    assert not is_looked_at(io.StringIO(), TERMINAL)


def test_nobody_sees_nothing() -> None:
    """The default costs nothing and shows nothing."""
    with NOBODY.watching():
        NOBODY.tell("sample 7", fractions=[0.5], elapsed_s=1.0, limit_s=2.0)
    NOBODY.clear()


# -- never inside a timed block


class Spy:
    """Notes what the device did between two tellings, and takes a second of the host's time for each."""

    def __init__(self, backend: FakeBackend) -> None:
        self.stages: list[str] = []
        self.fractions: list[int] = []
        self._backend = backend

    def tell(
        self, stage: str, *, fractions: Any = (), elapsed_s: float | None = None, limit_s: float | None = None
    ) -> None:
        """A slow terminal."""
        self.stages.append(stage)
        self.fractions.append(len(fractions))
        self._backend.host(0.05)

    watching: Callable[[], Any] = NOBODY.watching
    clear = NOBODY.clear


def test_a_slow_onlooker_changes_no_figure() -> None:
    """50 ms of drawing after every sample: the times of the passes are the same, to the last digit, and the stages
    come in their order."""
    timings = []
    for is_watched in (False, True):
        backend = FakeBackend()
        model = FakeModel(backend, 2e9)
        spy = Spy(backend)
        loop = Loop(model.step, backend=backend, drains=[backend], reset=model.reset, passes_per_reset=64)

        class Gauge:
            """Reads 1 TB/s."""

            def measure(self) -> float:
                """Bytes per second."""
                backend.host(30e-3)  # noqa: B023
                return 1e12

        timing = Measurement(
            loop,
            traffic=model.traffic,
            ruler=Gauge(),
            clock=backend.clock,
            deadline_s=backend.clock() + 10.0,
            context=0.0,
            **({"onlooker": spy} if is_watched else {}),
        ).run()
        timings.append(timing)
        if is_watched:
            assert spy.stages[0] == "warming up"
            samples = [stage for stage in spy.stages if stage != "warming up"]
            assert samples == [f"sample {number}" for number in range(1, len(timing.samples))]
            assert spy.fractions[-1] == len(timing.samples) - 1
    assert timings[0].step_s == pytest.approx(timings[1].step_s, rel=1e-6)
    assert timings[0].fraction == pytest.approx(timings[1].fraction, rel=1e-6)
