"""Giving memory back costs what came since the start, not what a program needs until it ends."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest

from fleetledger.device_agent.home.memory import keep_loaded, release_memory


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
