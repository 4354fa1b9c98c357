"""A report says what was done, what broke, and how to see it again."""

from __future__ import annotations

from tests.chaos.checks import Broken
from tests.chaos.report import ChaosReport


def test_a_report_lists_the_troubles() -> None:
    assert str(ChaosReport(3, "digits", {"power cuts": 2, "kills": 1}, (), 9.0, 3.0, 1.0)) == (
        "seed 3, digits: 1 kills, 2 power cuts"
    )
    assert str(ChaosReport(3, "digits", {}, (), 9.0, 3.0, 1.0)) == "seed 3, digits: no trouble"


def test_a_failure_names_seed_promise_and_the_command_that_repeats_it() -> None:
    broken = (Broken("nothing counts twice", "part 1"), Broken("a receipt is true", "it is not"))
    report = ChaosReport(3, "digits", {}, broken, 9.0, 3.0, 1.0)
    assert str(report.failure("python -m tests.chaos digits --seed 3")) == (
        "chaos: seed 3 broke 2 promises: nothing counts twice: part 1; a receipt is true: it is "
        "not; `python -m tests.chaos digits --seed 3` repeats it"
    )
