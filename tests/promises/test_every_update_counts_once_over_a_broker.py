"""Promise 1 with real programs: Mosquitto, coordinator and devices are processes that are killed.

`python -m tests.promises.real_broker` does ten thousand contributions; see docs/promises.md.
"""

from pathlib import Path

import pytest

from tests.promises.brokers import NarrowMosquitto
from tests.promises.real_broker import Kills, give_all

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("mosquitto")]


def test_a_broker_that_keeps_one_message_loses_none_for_good(tmp_path: Path) -> None:
    nobody = Kills(broker=0, coordinator=0, devices=0)
    give_all(tmp_path, contributions=40, devices=2, kills=nobody, kind=NarrowMosquitto)


def test_each_counts_once_whatever_is_killed_processes_that_check_them_too(tmp_path: Path) -> None:
    kills = Kills(broker=1, coordinator=1, devices=1, workers=4, snapshots=2, mirror=1)
    give_all(tmp_path, contributions=200, devices=2, kills=kills, workers=2)


@pytest.mark.nightly  # of more kinds above; a coordinator that checks by itself is killed elsewhere
def test_two_hundred_contributions_count_once_each(tmp_path: Path) -> None:
    kills = Kills(broker=1, coordinator=1, devices=2, snapshots=2, mirror=2)
    give_all(tmp_path, contributions=200, devices=2, kills=kills)
