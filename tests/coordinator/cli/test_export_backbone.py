"""`fleetledger model export-backbone`, run as a command."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.coordinator import settings
from fleetledger.coordinator.cli import ledger as ledger_cli
from fleetledger.coordinator.cli import models
from fleetledger.coordinator.settings import CoordinatorSettings
from fleetledger.export.preprocessing_file import load_preprocessing
from fleetledger.runtime.pip_command import pip_install
from fleetledger.schemas.values import FleetId

ROOT = Path(__file__).parents[3]


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(models.app, ["export-backbone", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


@pytest.mark.torchvision
def test_it_writes_both_files_and_says_what_it_measured(tmp_path: Path) -> None:
    out = tmp_path / "small.onnx"
    size = ("--size", "32", "--weights", "random", "--out", str(out))
    code, text = run("--torchvision", "mobilenet_v3_small", *size)
    assert code == 0
    assert f"576 features from 32 x 32 pixels, {out.stat().st_size:,} bytes" in text
    assert "parity on 8 pictures: onnxruntime " in text
    assert load_preprocessing(tmp_path / "small.toml").size == (32, 32)
    before = out.read_bytes()
    run("--torchvision", "mobilenet_v3_small", *size, "--seed", "1")
    assert out.read_bytes() != before


@pytest.mark.torchvision
def test_it_can_import_what_it_made_at_once(tmp_path: Path) -> None:
    home, out = tmp_path / "home", tmp_path / "small.onnx"
    settings.write_new(home, CoordinatorSettings(fleet=FleetId("fleet-1")))
    wanted = ("--torchvision", "shufflenet_v2_x0_5", "--weights", "random", "--size", "32")
    assert run(*wanted, "--out", str(out), "--import", "--home", str(home))[0] == 0
    told = CliRunner().invoke(ledger_cli.app, ["tail", "--home", str(home)]).stdout
    assert "(small) leads: 1024 backbone features" in told


@pytest.mark.torchvision
def test_nothing_is_written_if_weights_do_not_fit(tmp_path: Path) -> None:
    out = tmp_path / "a.onnx"
    weights = str(tmp_path / "gone.pth")
    arguments = ("--torchvision", "resnet18", "--size", "32", "--weights", weights)
    with pytest.raises(Exception, match=r"gone\.pth cannot be read"):
        run(*arguments, "--out", str(out))
    assert list(tmp_path.iterdir()) == []


def test_weights_are_never_random_unless_asked_for() -> None:
    code, text = run("--torchvision", "resnet18")
    assert code == 2
    assert "--weights" in text


@pytest.mark.parametrize("package", ["torch", pytest.param("torchvision", marks=pytest.mark.torch)])
def test_without_torch_it_names_the_command_that_installs_it(tmp_path: Path, package: str) -> None:
    program = (
        "import sys\nfrom fleetledger import command_line\n"
        f"sys.modules[{package!r}] = None\n"  # as if it were not installed
        "sys.argv = ['fleetledger', 'model', 'export-backbone', '--torchvision', 'resnet18',\n"
        f"    '--weights', 'random', '--out', {str(tmp_path / 'a.onnx')!r}]\n"
        "command_line.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"this needs {package} " in done.stderr
    assert pip_install("train") in done.stderr
