"""The processes that a test started are its own: no neighbours, and the device that it holds is held for them, too."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_roofline.backends.cpu_conditions import own_busy_s
from pytest_roofline.backends.nvml_processes import is_descendant, others_of
from pytest_roofline.conditions import Conditions, stretch_of
from pytest_roofline.device import Device
from pytest_roofline.turnstile import Turnstile

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the children of a process")
CARD = Device(name="Card", kind="cuda", backend="torch", uuid="GPU-1")
BUSY = """
import os, sys
while sum(os.times()[:2]) < 0.3:
    pass
print("done", flush=True)
sys.stdin.readline()
"""
FAMILY = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.readline()
child.communicate("\\n")
"""
HOLD = """
import sys
from pytest_roofline.device import Device
from pytest_roofline.turnstile import Turnstile
with Turnstile(folder=sys.argv[1], wait_s=0.5).hold(Device(name="Card", kind="cuda", backend="torch", uuid="GPU-1")):
    print("measured")
"""


@contextmanager
def started(*command: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A child of ours, and its first line; it ends with the block."""
    with subprocess.Popen(
        [sys.executable, "-c", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        yield child, child.stdout.readline().strip()
        child.communicate("\n")


@linux
def test_work_of_children_and_theirs_is_our_own() -> None:
    """While they live and once they have ended: the count does not fall, and takes nothing twice."""
    if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        pytest.skip("this kernel does not list children")
    before = own_busy_s()
    own = sum(os.times()[:2])
    with started(FAMILY, BUSY) as (_, grandchild):
        assert is_descendant(int(grandchild))
        living = own_busy_s()
        assert living - before >= 0.28  # ticks are 10 ms
    ended = own_busy_s()
    assert ended >= living - 0.03
    spent = sum(os.times()[:2]) - own
    assert ended - before <= spent + sum(os.times()[2:4]) + 0.05


@linux
def test_a_busy_child_is_no_neighbour_on_the_processor() -> None:
    """What the machine did in that time and this family did not is others'; a child's part is not in it."""
    if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        pytest.skip("this kernel does not list children")
    before = own_busy_s()
    with started(BUSY):
        after = own_busy_s()
    spent = after - before
    # As if the machine had done just this in that time, on one core.
    stretch = stretch_of(
        Conditions(machine_busy_s=0.0, process_busy_s=before),
        Conditions(machine_busy_s=spent, process_busy_s=after),
        elapsed_s=spent,
        cores=1,
    )
    assert spent >= 0.28
    assert stretch.neighbours_share == pytest.approx(0.0, abs=1e-6)


def test_a_machine_of_our_own_making(tmp_path: Path) -> None:
    """Children of every thread, and theirs; names with brackets, and what is missing or no number, cost their part."""
    files = {
        "self/task/1/children": "20 21 ",
        "self/task/2/children": "22",
        "20/task/20/children": "30",
        "20/stat": "20 (a) b) (c) S 1 0 0 0 0 0 0 0 0 0 100 50 7 3 20 0",
        "21/stat": "21 (b) S 1 0 0 0 0 0 0 0 0 0 x 50 7 3",
        "30/stat": "30 (c) S 1 0 0 0 0 0 0 0 0 0 40 0 0 0 9",
    }
    for name, text in files.items():
        path = tmp_path / "proc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    bare = own_busy_s(tmp_path / "nothing")
    assert own_busy_s(tmp_path) - bare == pytest.approx(200 / ticks_per_s, abs=0.02)


@linux
def test_a_card_s_own_children_are_no_neighbours() -> None:
    """Neither a child nor a grandchild is among the others of a card."""
    with started(FAMILY, BUSY) as (child, grandchild):
        processes = [SimpleNamespace(pid=pid) for pid in (os.getpid(), child.pid, int(grandchild), 1)]
        assert [one.pid for one in others_of(processes)] == [1]


@linux
def test_a_child_may_measure_on_the_device_that_its_test_holds(tmp_path: Path) -> None:
    """Waiting for the test would never end: the test waits for it. A stranger still has to wait."""
    with Turnstile(folder=str(tmp_path)).hold(CARD):
        done = subprocess.run(
            [sys.executable, "-c", HOLD, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.stdout == "measured\n", done.stderr
        assert not is_descendant(os.getpid(), of=int(_stranger()))


def _stranger() -> str:
    done = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    return done.stdout.decode()
