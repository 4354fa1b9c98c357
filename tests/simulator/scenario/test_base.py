"""A scenario that names another one for its base has what that has, and what it says itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.simulator.errors import ScenarioError
from fleetledger.simulator.scenario.loading import (
    MOST_BASES,
    load_scenario,
    parse_scenario,
    scenario_to_toml,
)
from fleetledger.simulator.scenario.model import Scenario


def parsed(text: str, folder: Path = Path("/")) -> Scenario:
    return parse_scenario("mine", text, folder)


def test_what_it_says_wins_and_everything_else_is_the_bases() -> None:
    base = load_scenario("cifar100-lga-10")
    mine = parsed('base = "cifar100-lga-10"\n[devices]\ncount = 7\n[method.settings]\nepochs = 3')
    assert mine.devices == base.devices.model_copy(update={"count": 7})
    assert mine.method.settings == base.method.settings | {"epochs": 3}
    assert mine.model_copy(update={"devices": base.devices, "method": base.method}) == base


def test_lists_are_replaced_and_may_be_emptied() -> None:
    mine = parsed('base = "cifar100-lga-10"\npublished = []\nseeds = [5]')
    assert (mine.published, mine.seeds) == ((), (5,))


def test_another_method_leaves_the_settings_of_the_bases() -> None:
    mine = parsed('base = "cifar100-lga-10"\n[method]\nname = "rounds"')
    assert mine.method.settings == {}


def test_a_base_is_a_file_seen_from_the_one_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "first.toml").write_text(
        'title = "first"\n[data]\nset = "npz"\nroot = "pictures.npz"'
    )
    (tmp_path / "second.toml").write_text('base = "below/first.toml"\ntitle = "second"')
    scenario = load_scenario(str(tmp_path / "second.toml"))
    assert scenario.title == "second"
    assert scenario.data.root == str(tmp_path / "below" / "pictures.npz")


def test_what_a_run_keeps_names_no_base_and_is_the_whole_scenario() -> None:
    scenario = load_scenario("cifar100-lga-10-paper")
    kept = scenario_to_toml(scenario)
    assert "base" not in [line.partition(" ")[0] for line in kept.splitlines()[:5]]
    assert parsed(kept) == scenario


def test_a_cycle_is_refused(tmp_path: Path) -> None:
    for name, base in (("a", "b"), ("b", "c"), ("c", "a")):
        (tmp_path / f"{name}.toml").write_text(f'base = "{base}.toml"\ntitle = "{name}"')
    with pytest.raises(ScenarioError, match=r"base: 'a\.toml' has it for a base itself"):
        load_scenario(str(tmp_path / "a.toml"))


def test_so_is_a_file_that_is_its_own_base(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('base = "a.toml"\ntitle = "a"')
    with pytest.raises(ScenarioError, match="has it for a base itself"):
        load_scenario(str(tmp_path / "a.toml"))


@pytest.mark.parametrize("more", [0, 1])
def test_a_chain_has_an_end(tmp_path: Path, more: int) -> None:
    last = MOST_BASES + more
    for number in range(last):
        (tmp_path / f"{number}.toml").write_text(f'base = "{number + 1}.toml"')
    (tmp_path / f"{last}.toml").write_text('title = "the last one"')
    if not more:
        assert load_scenario(str(tmp_path / "0.toml")).title == "the last one"
        return
    with pytest.raises(ScenarioError, match=f"a chain of more than {MOST_BASES}"):
        load_scenario(str(tmp_path / "0.toml"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('base = "cifar100-lga-11"', "none of this name ships"),
        ("base = 3", "base: 3; give the name of a scenario"),
        ('base = ""', "base: ''; give the name of a scenario"),
        ('base = "digits"\ndevises = 3', "devises"),
    ],
)
def test_what_is_no_base_is_told(text: str, told: str) -> None:
    with pytest.raises(ScenarioError, match=told):
        parsed(text)
