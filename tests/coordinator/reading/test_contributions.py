"""How many contributions came when, as they are asked for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from fleetledger.coordinator.ledger.reader import ledger_of
from fleetledger.coordinator.reading.contributions import ContributionFilter, given, over_time
from tests.coordinator.core.harness import Bench, contribution
from tests.coordinator.reading.test_views import RULES, write

MINUTE = 60 * 10**9


@pytest.mark.parametrize("device", [None, "dev-1", "dev-2", "nobody"])
def test_contributions_are_counted_by_hour(tmp_path: Path, device: str | None) -> None:
    bench = Bench(RULES, now_ns=1000 * MINUTE)
    bench.begin("dev-1", "dev-2")
    for number, minutes in enumerate((0, 5, 61, 70, 130, 250)):
        bench.now_ns = (1000 + minutes) * MINUTE
        bench.give(f"dev-{1 + number % 2}", contribution(f"part {number}", part=number))
    write(tmp_path, bench)
    wanted, now_ns = ContributionFilter(device=device), 1260 * MINUTE
    with ledger_of(tmp_path) as ledger:
        found = over_time(ledger, wanted, now_ns, 60 * MINUTE, 5)
        slowly = Counter(one.time_ns // (60 * MINUTE) for one in given(ledger, wanted, 100))
    assert found.first_ns == 17 * 60 * MINUTE
    assert found.counts == tuple(slowly[hour] for hour in (17, 18, 19, 20, 21))
    assert sum(found.counts) == (0 if device == "nobody" else 4 if device is None else 2)
