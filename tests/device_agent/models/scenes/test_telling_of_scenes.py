"""What doctor and status say of a folder of scenes."""

from pathlib import Path

import pytest

from fleetledger.device_agent.cli import doctor
from fleetledger.device_agent.cli.doctor import Finding
from fleetledger.device_agent.cli.report import status_lines
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.program.assembly import rules_of
from tests.device_agent.cli.test_doctor_and_status import status_of
from tests.device_agent.models.scenes import dense
from tests.device_agent.scripted import write_settings


@pytest.fixture
def home(tmp_path: Path) -> AgentHome:
    return write_settings(tmp_path, samples="scenes")


def data_folder(home: AgentHome) -> Finding:
    return next(item for item in doctor._folders(home) if item.about == "data folder")


def test_an_empty_folder_says_what_belongs_there(home: AgentHome) -> None:
    found = data_folder(home)
    assert found.verdict == "missing"
    assert "classes.toml: there is no such file" in found.text
    dense.name_classes(home.data_folder)
    found = data_folder(home)
    assert "images: there is no such folder" in found.text
    folder = home.data_folder
    assert found.way_out == (
        f"mkdir -p {folder / 'images'} {folder / 'masks'}; write {folder / 'classes.toml'}"
    )
    for part in ("images", "masks"):
        (folder / part).mkdir()
    found = data_folder(home)
    assert found.verdict == "note"
    assert "0 scenes, 3 named classes" in found.text


def test_scenes_are_counted_and_what_stands_alone(home: AgentHome) -> None:
    dense.name_classes(home.data_folder)
    for name in ("a", "b"):
        dense.put_scene(home.data_folder, name, dense.blocks(1))
    found = data_folder(home)
    assert (found.verdict, "2 scenes, 3 named classes" in found.text) == ("ok", True)
    (home.data_folder / "masks" / "b.png").unlink()
    found = data_folder(home)
    assert found.verdict == "note"
    assert "1 scene, 3 named classes; 1 picture or mask alone" in found.text


def test_masks_that_nobody_measures_are_noted(tmp_path: Path) -> None:
    home = write_settings(tmp_path, samples="scenes")
    path = home.folder / "agent.toml"
    path.write_text(path.read_text().replace('evaluation_folder = "test"\n', ""))
    found = list(doctor._folders(AgentHome.open(home.folder)))[1]
    assert (found.verdict, found.text) == ("note", "none: the models' masks are not measured")


def test_status_counts_scenes_as_scenes(home: AgentHome) -> None:
    lines = list(status_lines(status_of(home, samples="scenes"), 1.0, running=True))
    assert any(line.startswith("scenes       ") and "on disk" in line for line in lines)


def test_the_rules_know_what_the_settings_say(home: AgentHome) -> None:
    assert rules_of(home).samples == "scenes"
