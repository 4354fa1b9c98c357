"""Drop-out and stragglers."""

import numpy as np
import pytest

from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.plan.presence import draw_presence, draw_slowness
from fleetledger.simulator.scenario.sections import DeviceSettings

MANY = range(1, 4001)


def draw(devices=MANY, seed: int = 3, stage: int = 2, **settings):
    return draw_presence(DeviceSettings(**settings), devices, seed, stage)


def test_everybody_is_online_and_in_time_unless_asked_otherwise():
    assert all(p.online and p.delay_seconds == 0 for p in draw(range(1, 50)).values())


def test_shares_and_delays_are_as_asked():
    drawn = draw(dropout=0.3, stragglers=0.5, straggler_seconds=20.0).values()
    assert np.mean([p.online for p in drawn]) == pytest.approx(0.7, abs=0.02)
    late = np.array([p.delay_seconds for p in drawn if p.delay_seconds > 0])
    assert len(late) / len(MANY) == pytest.approx(0.7 * 0.5, abs=0.02)
    assert late.mean() == pytest.approx(20, rel=0.06)
    assert late.std() == pytest.approx(20, rel=0.1)
    assert all(p.online for p in drawn if p.delay_seconds > 0)


def test_a_larger_dropout_adds_to_those_of_a_smaller_one():
    few = {n for n, p in draw(dropout=0.1).items() if not p.online}
    more = {n for n, p in draw(dropout=0.4).items() if not p.online}
    assert few < more


def test_it_does_not_matter_to_a_device_who_else_is_there():
    settings = {"dropout": 0.3, "stragglers": 0.5}
    everybody, some = draw(range(1, 60), **settings), draw((3, 20, 41), **settings)
    assert some == {device: everybody[device] for device in (3, 20, 41)}


def test_dropping_out_does_not_change_the_delays_of_the_others():
    with_all = draw(stragglers=0.5)
    with_fewer = draw(stragglers=0.5, dropout=0.2)
    assert all(p == with_all[n] for n, p in with_fewer.items() if p.online)


def test_stages_and_seeds_are_drawn_apart():
    base = draw(dropout=0.5)
    assert base != draw(dropout=0.5, stage=3)
    assert base != draw(dropout=0.5, seed=4)


def test_devices_are_slow_up_to_the_slowest_and_stay_so():
    settings, names = DeviceSettings(slowest=16.0), [DeviceId(f"device-{n}") for n in MANY]
    drawn = draw_slowness(settings, names, seed=3)
    assert 1 <= min(drawn.values()) < 1.05
    assert 15 < max(drawn.values()) <= 16
    assert np.median(list(drawn.values())) == pytest.approx(4, rel=0.06)
    assert draw_slowness(settings, names[:7], seed=3) == {n: drawn[n] for n in names[:7]}
    assert set(draw_slowness(DeviceSettings(), names, seed=3).values()) == {1.0}
