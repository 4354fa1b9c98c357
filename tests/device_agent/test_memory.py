"""Giving memory back costs what came since the start, not what a program needs until it ends."""

from __future__ import annotations

import gc
import weakref

from device_agent.memory import give_back, keep_loaded


class Ring:
    """Something that only the collector can free."""

    def __init__(self) -> None:
        self.itself = self


def test_what_is_loaded_is_passed_over_and_what_comes_later_is_freed() -> None:
    keep_loaded()
    assert len(gc.get_objects()) < 1000, "modules alone are a hundred thousand"
    gone = weakref.ref(Ring())
    give_back()
    assert gone() is None
