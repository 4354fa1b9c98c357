"""`fleetledger model import-network`, run as a command."""

from pathlib import Path

import pytest
import safetensors.numpy
from typer.testing import CliRunner

from fleetledger.coordinator.cli import ledger as ledger_cli
from fleetledger.coordinator.cli import models
from fleetledger.coordinator.errors import NetworkSettingsError
from fleetledger.learning.networks.plan import initial_arrays
from fleetledger.learning.networks.segmentation.registry import build_segmentation
from fleetledger.schemas.models import Preprocessing
from tests.coordinator.shell_harness import write_home


def run(home: Path, *arguments: str) -> str:
    files = ("--preprocessing", str(home / "pixels.json"), "--home", str(home))
    result = CliRunner().invoke(models.app, ["import-network", *files, *arguments])
    if result.exception is not None:
        raise result.exception
    return result.output


def test_it_begins_a_network_on_the_features_of_a_backbone(tmp_path: Path) -> None:
    write_home(tmp_path, "rounds", network="fam", head="hidden")
    assert "leads" in run(tmp_path, "--backbone", str(tmp_path / "pixels.onnx"))
    told = CliRunner().invoke(ledger_cli.app, ["tail", "--home", str(tmp_path)]).stdout
    assert "(fam) leads: devices train it on the 16 features of frozen model" in told
    verified = CliRunner().invoke(ledger_cli.app, ["verify", "--home", str(tmp_path)])
    assert verified.exit_code == 0


def test_it_begins_a_network_on_pictures(tmp_path: Path) -> None:
    write_home(tmp_path, "rounds", network="mlp")
    run(tmp_path)
    told = CliRunner().invoke(ledger_cli.app, ["tail", "--home", str(tmp_path)]).stdout
    assert "(mlp) leads: devices train it whole" in told


def test_a_method_on_features_is_refused_without_a_backbone(tmp_path: Path) -> None:
    write_home(tmp_path, "fedhaf")
    with pytest.raises(NetworkSettingsError) as refused:
        run(tmp_path)
    assert f"--preprocessing {tmp_path / 'pixels.json'} --backbone FILE.onnx" in str(refused.value)


@pytest.mark.torch
def test_it_begins_a_network_of_pixels_with_a_trunk_from_a_file(tmp_path: Path) -> None:
    write_home(tmp_path, "fbl", network="small_dense")
    scenes = Preprocessing(
        mode="RGB", size=(16, 24), mean=(0.5,) * 3, deviation=(0.5,) * 3, input_name="image"
    )
    (tmp_path / "pixels.json").write_text(scenes.model_dump_json(), encoding="utf-8")
    trunk = build_segmentation("small_dense", scenes.shape).body.trunk
    safetensors.numpy.save_file(initial_arrays(trunk.plan(), 5), tmp_path / "trunk.safetensors")
    assert "leads" in run(tmp_path, "--trunk", str(tmp_path / "trunk.safetensors"))
    told = CliRunner().invoke(ledger_cli.app, ["tail", "--home", str(tmp_path)]).stdout
    assert "It gives every pixel a class, or the background." in told
