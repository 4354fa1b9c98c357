"""What is shown of a run, on a terminal and in a log."""

from io import StringIO

import pytest
from rich.console import Console

from fleetledger.simulator.run.progress import Screen


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def terminal() -> Console:
    return Console(file=StringIO(), width=120, force_terminal=True)


def lines_shown(screen: Screen) -> list[str]:
    console = Console(width=120, file=StringIO())
    console.print(screen.progress.get_renderable())
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]


def test_a_terminal_sees_seed_stage_agents_and_the_time_left():
    clock = Clock()
    with Screen(terminal(), 2, clock) as screen:
        screen.seed(0, 7, 0, 4)
        screen.stage(1, 4)
        screen.agents(30, 60)
        clock.now = 10.0  # an eighth of a half is done
        whole, agents = lines_shown(screen)
    assert whole.startswith("seed 7 (1 of 2)")
    assert "stage 1 of 4" in whole
    assert whole.endswith("0:00:10 0:02:30 left")
    assert "30 of 60" in agents


def test_the_time_left_is_not_told_before_anything_is_done():
    with Screen(terminal(), 1, Clock()) as screen:
        screen.seed(0, 1, 0, 2)
        screen.stage(1, 2)
        assert lines_shown(screen)[0].endswith("-:--:-- left")


def test_what_an_earlier_process_did_makes_this_one_no_faster():
    clock = Clock()
    with Screen(terminal(), 1, clock) as screen:
        screen.seed(0, 1, 2, 4)
        screen.stage(3, 4)
        screen.agents(10, 10)
        clock.now = 10.0  # one stage of the two that are left
        assert lines_shown(screen)[0].endswith("0:00:10 left")


def test_seeds_that_a_former_process_finished_make_this_one_no_faster():
    clock = Clock()
    with Screen(terminal(), 3, clock) as screen:
        screen.seed(0, 1, 4, 4)
        screen.seed(1, 2, 2, 4)
        screen.stage(3, 4)
        screen.stage(4, 4)
        clock.now = 10.0  # one stage of the six that are left
        assert lines_shown(screen)[0].endswith("0:00:50 left")


def test_rounds_are_shown_and_count_for_the_time_left():
    clock = Clock()
    with Screen(terminal(), 1, clock) as screen:
        screen.seed(0, 1, 0, 2)
        screen.stage(1, 2)
        screen.round(0, 5)
        screen.agents(10, 10)
        screen.round(1, 5)
        screen.agents(5, 10)
        screen.round(2, 5)
        screen.agents(0, 10)
        clock.now = 10.0  # two rounds of ten
        (whole, _) = lines_shown(screen)
    assert "stage 1 of 2, round 3 of 5" in whole
    assert whole.endswith("0:00:40 left")


def test_agents_that_are_counted_anew_do_not_turn_the_bar_back():
    clock = Clock()
    with Screen(terminal(), 1, clock) as screen:
        screen.seed(0, 1, 0, 2)
        screen.stage(1, 2)
        screen.agents(5, 5)
        screen.agents(0, 5)
        clock.now = 10.0
        assert lines_shown(screen)[0].endswith("0:00:10 left")


def test_a_log_gets_a_line_for_each_stage_and_phase_and_none_for_agents():
    console = Console(file=StringIO(), width=120)
    with Screen(console, 1) as screen:
        screen.phase("extracting features: 10 of 50 pictures")
        screen.phase("extracting features: 20 of 50 pictures")
        screen.seed(0, 3, 0, 2)
        screen.stage(1, 2)
        for done in range(50):
            screen.agents(done, 50)
        screen.say("97.00 %")
    assert console.file.getvalue().splitlines() == [
        "  extracting features",
        "seed 3, stage 1 of 2",
        "97.00 %",
    ]


@pytest.mark.parametrize("name", ["[bold]", "50 [of] them"])
def test_text_is_shown_as_it_is(name: str):
    console = Console(file=StringIO(), width=120)
    with Screen(console, 1) as screen:
        screen.say(name)
    assert console.file.getvalue() == f"{name}\n"
