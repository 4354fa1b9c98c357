"""The settings file that `init` writes is read back, and a broken one is named in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.coordinator.core.rules import AdapterRules, AsynchronousRules, RolloutRules
from fleetledger.coordinator.paths import FILE_NAME
from fleetledger.coordinator.program.broker import mqtt_settings
from fleetledger.coordinator.settings import (
    CoordinatorBrokerSettings,
    CoordinatorSettings,
    MethodSection,
    load,
    write_new,
)
from fleetledger.coordinator.topics.rollouts.plan import GatePlan, RolloutPlan
from fleetledger.methods.training.robust import Robust
from fleetledger.runtime.private_file import write_private
from fleetledger.runtime.settings_file import SettingsError
from fleetledger.schemas.values import FleetId

SETTINGS = CoordinatorSettings(
    fleet=FleetId("demo"),
    broker=CoordinatorBrokerSettings(port=2883, password_file=Path("secret")),
    method=MethodSection(settings={"form": "exact", "map_width": 256, "ridge": 1e4}),
)


def test_what_init_writes_is_what_is_read(tmp_path: Path) -> None:
    write_new(tmp_path, SETTINGS)
    assert load(tmp_path) == SETTINGS


def test_lists_quotes_and_tables_in_a_methods_settings_are_read_back(tmp_path: Path) -> None:
    values = {"milestones": (10, 15), "note": 'a "quoted" word', "nested": {"on": True, "k": 0.5}}
    write_new(tmp_path, SETTINGS.model_copy(update={"method": MethodSection(settings=values)}))
    assert load(tmp_path).method.settings == {**values, "milestones": [10, 15]}


@pytest.mark.parametrize(("text", "quorum"), [("1", 1), ("1.0", 1.0), ("3", 3), ("0.25", 0.25)])
def test_a_quorum_of_reports_is_a_number_or_a_share(
    tmp_path: Path, text: str, quorum: float
) -> None:
    write_new(tmp_path, SETTINGS)
    file = tmp_path / FILE_NAME
    before = file.read_text(encoding="utf-8")
    file.write_text(before.replace("reports_quorum = 0.5", f"reports_quorum = {text}"), "utf-8")
    found = load(tmp_path).stages.reports_quorum
    assert (found, type(found)) == (quorum, type(quorum))


def test_gates_that_are_off_are_off_when_they_are_read_back(tmp_path: Path) -> None:
    plan = RolloutPlan(gates=GatePlan(memory=None, latency=2.0))
    rules = {"adapter": AdapterRules(held_out=0.5), "rollouts": RolloutRules(plan=plan)}
    write_new(tmp_path, SETTINGS.model_copy(update=rules))
    found = load(tmp_path)
    assert {name: getattr(found, name) for name in rules} == rules
    assert found.adapter.plan.gates.entropy_nats is None


def test_init_does_not_overwrite(tmp_path: Path) -> None:
    write_new(tmp_path, SETTINGS)
    with pytest.raises(SettingsError, match="exists already"):
        write_new(tmp_path, SETTINGS)


def test_a_missing_file_names_the_way_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="make one with `init`"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fleet = ", "not TOML"),
        ('fleet = "Demo Fleet"', "fleet: 'Demo Fleet'"),
        ('fleet = "demo"\n[stages]\nquorum = 2', "stages.quorum: 2"),
        ('fleet = "demo"\ncolour = "red"', "colour: no such setting"),
    ],
)
def test_a_broken_file_is_named_with_field_and_value(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / FILE_NAME).write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load(tmp_path)
    assert words in str(caught.value)
    assert FILE_NAME in str(caught.value)


def test_a_missing_password_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"broker\.password_file"):
        mqtt_settings(tmp_path, SETTINGS, role="control")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o620, 0o602])
def test_a_password_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "secret"
    write_private(file, b"s3cret\n")
    assert mqtt_settings(tmp_path, SETTINGS, role="control").password == file
    file.chmod(mode)
    with pytest.raises(SettingsError) as caught:
        mqtt_settings(tmp_path, SETTINGS, role="control")
    assert str(caught.value).endswith(
        f"{file}: others may read it (mode {mode:04o}); run `chmod 600 {file}`"
    )
    assert "s3cret" not in str(caught.value)


def test_a_fleet_that_does_not_learn_has_no_method_and_no_stages(tmp_path: Path) -> None:
    path = write_new(tmp_path, CoordinatorSettings(fleet=FleetId("workshop"), learning=False))
    text = path.read_text(encoding="utf-8")
    assert "[method]" not in text
    assert "[stages]" not in text
    assert not load(tmp_path).learning
    assert not load(tmp_path).rules.learning


def test_asynchronous_rounds_are_refused_of_a_method_that_needs_all_answers(tmp_path: Path) -> None:
    write_new(tmp_path, SETTINGS)
    file = tmp_path / FILE_NAME
    text = "fleet = 'demo'\n[method]\nname = '{}'\n[rounds.asynchronous]\nbuffer = 3\n"
    file.write_text(text.format("lga"), "utf-8")
    with pytest.raises(SettingsError, match=r"rounds\.asynchronous: 'lga' needs all answers"):
        load(tmp_path)
    file.write_text(text.format("rounds"), "utf-8")
    found = load(tmp_path)
    assert found.rounds.asynchronous == AsynchronousRules(buffer=3)
    file.unlink()
    write_new(tmp_path, found)
    assert load(tmp_path) == found


def test_a_robust_mean_is_refused_where_answers_are_not_all_there_or_not_averaged(
    tmp_path: Path,
) -> None:
    write_new(tmp_path, SETTINGS)
    file = tmp_path / FILE_NAME
    text = "fleet = 'demo'\n[method]\nname = '{}'\n[rounds.robust]\nmean = 'trimmed'\n"
    file.write_text(text.format("dcid"), "utf-8")
    with pytest.raises(SettingsError, match=r"rounds\.robust: 'dcid' does more .*'rounds'"):
        load(tmp_path)
    file.write_text(text.format("rounds") + "[rounds.asynchronous]\n", "utf-8")
    with pytest.raises(SettingsError, match=r"robust\.mean: 'trimmed' needs all .*max_norm"):
        load(tmp_path)
    hidden = "[method.settings.privacy]\nclip = 1.0\nnoise = 0.5\n"
    file.write_text(text.format("rounds") + hidden, "utf-8")
    with pytest.raises(SettingsError, match=r"robust: .*noise of privacy hides .*'local'"):
        load(tmp_path)
    file.write_text(text.format("rounds") + hidden + "where = 'local'\n", "utf-8")
    load(tmp_path)
    for method in ("rounds", "fedhaf", "lga", "fbl"):
        file.write_text(text.format(method), "utf-8")
        assert load(tmp_path).rules.rounds.robust == Robust(mean="trimmed")
    bound = text.format("rounds").replace("mean = 'trimmed'", "max_norm = 3.0")
    file.write_text(bound + "[rounds.asynchronous]\n", "utf-8")
    found = load(tmp_path)
    file.unlink()
    write_new(tmp_path, found)
    assert load(tmp_path) == found
