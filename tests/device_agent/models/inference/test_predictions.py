"""`agent predict`: what the active model says of files, for people and programs."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from typer.testing import CliRunner

from fleetledger.device_agent.cli.commands import app
from fleetledger.device_agent.errors import NoModelError
from tests.device_agent import model_files as models
from tests.device_agent.models.inference.homes import ServingHome
from tests.device_agent.models.scenes import dense
from tests.docs.command_schemas import schema_of


def predict(home: ServingHome, *words: object):
    return CliRunner().invoke(app, ["predict", *map(str, words), "--home", str(home.folder)])


@pytest.fixture
def home(tmp_path: Path) -> ServingHome:
    made = ServingHome(tmp_path / "agent-home")
    made.switch(models.exported(1))
    return made


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "dark.png"
    path.write_bytes(models.picture("dark"))
    return path


def test_people_read_classes_and_doubt(
    home: ServingHome, picture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEETLEDGER_OUTPUT", "table")
    done = predict(home, picture, "--most", 1)
    assert done.exit_code == 0, done.output
    answer, version = done.stdout.splitlines()
    assert answer.startswith(f"{picture}: dark ")
    assert "light" not in answer
    assert "doubt 0." in answer
    assert version == "by model version 1"


def test_json_is_as_its_schema_says(home: ServingHome, picture: Path) -> None:
    done = predict(home, picture, "nowhere.png", "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    jsonschema.validate(found, schema_of("agent predict"))
    known, unknown = found["predictions"]
    assert (known["names"], known["fault"]) == (["dark", "light"], "")
    assert "cannot be read" in unknown["fault"]
    assert unknown["doubt"] is None


def test_of_pixels_it_says_shares(tmp_path: Path) -> None:
    home = ServingHome(tmp_path / "agent-home")
    home.switch(dense.exported())
    path = tmp_path / "street.png"
    mask = dense.blocks(0, 1, 2, 0, height=40, width=64)
    dense.painted(mask).save(path)
    (found,) = json.loads(predict(home, path, "--json").stdout)["predictions"]
    assert found["names"][0] == "background"
    assert found["scores"][0] == pytest.approx(np.mean(mask == 0), abs=0.1)


def test_without_a_model_it_says_what_to_do(tmp_path: Path) -> None:
    done = predict(ServingHome(tmp_path / "agent-home"), "dark.png")
    assert isinstance(done.exception, NoModelError)
