"""Giving memory back costs what came since the start, not what a program needs until it ends."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from fleetledger.device_agent.home.memory import _unchanged_code, keep_loaded, release_memory


class Ring:
    """Something that only the collector can free."""

    def __init__(self) -> None:
        self.itself = self


def test_what_is_loaded_is_passed_over_and_what_comes_later_is_freed() -> None:
    keep_loaded()
    assert len(gc.get_objects()) < 1000, "modules alone are a hundred thousand"
    gone = weakref.ref(Ring())
    release_memory()
    assert gone() is None


_FAULTS_OF_A_COPY = """
import resource
from fleetledger.device_agent.home.memory import quick_allocation
quick_allocation()
model = bytearray(64 << 20)
del model
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
model = bytearray(64 << 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is told")
def test_where_speed_is_preferred_a_large_array_takes_the_pages_of_the_one_before() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FAULTS_OF_A_COPY], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 1000, "fresh ones are 16,384 pages of 4 KiB"


_CODE_IS_READ_AGAIN = """
import re
from pathlib import Path
import numpy as np
from fleetledger.device_agent.home.memory import release_code
def resident():
    found, within = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match("[0-9a-f]+-", line):
            within = " r-xp " in line and "/numpy/" in line
        elif within and line.startswith("Rss:"):
            found += int(line.split()[1])
    return found
before = np.arange(1000.0).cumsum()
held = resident()
release_code("numpy")
left = resident()
assert (np.arange(1000.0).cumsum() == before).all()
print(held, left, resident())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has these mappings")
def test_code_that_does_not_run_is_let_go_and_runs_again() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CODE_IS_READ_AGAIN], capture_output=True, text=True, check=True
    )
    held, left, again = map(int, done.stdout.split())
    assert left < held / 4
    assert left < again < held


def test_code_that_was_changed_in_memory_stays(tmp_path: Path) -> None:
    smaps = tmp_path / "smaps"
    kinds = (("r-xp", "here/a.so", 0), ("r-xp", "here/b.so", 4), ("r--p", "here/a.so", 0))
    kinds += (("r-xp", "there/c.so", 0), ("r-xp", "here/d e.so", 0))
    smaps.write_text(
        "".join(
            f"{number}000-{number}fff {kind} 00000000 00:1f 7    /x/{name}\n"
            f"Rss: 8 kB\nAnonymous:    {changed} kB\n"
            for number, (kind, name, changed) in enumerate(kinds, start=1)
        )
        + "7000-7fff r-xp 00000000 00:00 0\nAnonymous: 0 kB\n"
    )
    assert list(_unchanged_code(smaps, "/here/")) == [(0x1000, 0x1FFF), (0x5000, 0x5FFF)]
