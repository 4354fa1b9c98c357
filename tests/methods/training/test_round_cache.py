"""What a round's answers share is made once, and not kept longer than the round."""

from __future__ import annotations

import gc
import weakref

from fleetledger.methods.training.exchange import RoundConfig
from fleetledger.methods.training.round_cache import RoundCache


class Frame:
    pass


def asked() -> RoundConfig:
    return RoundConfig("train", 1, 1, b"weights", (), ())


def test_it_is_made_once_for_one_round_and_equal_assignments() -> None:
    once, round_, made = RoundCache[Frame](), asked(), []

    def make() -> Frame:
        made.append(Frame())
        return made[-1]

    assert once(round_, (1,), make) is once(round_, (1,), make)
    assert once(round_, (2,), make) is not once(asked(), (2,), make)
    assert len(made) == 3


def test_it_goes_with_its_round() -> None:
    once, round_ = RoundCache[Frame](), asked()
    frame = weakref.ref(once(round_, (), Frame))
    gc.collect()
    assert frame() is not None
    del round_
    gc.collect()
    assert frame() is None
