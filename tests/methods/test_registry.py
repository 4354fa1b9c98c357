"""Methods by name, and what every method's folder must look like."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from fleetledger import methods
from fleetledger.methods.descriptor import LEARN
from fleetledger.methods.errors import MethodError, UnknownMethodError
from fleetledger.methods.registry import (
    METHODS,
    can_learn,
    descriptor,
    descriptors,
    statistics_coordinator,
    statistics_device,
    training_coordinator,
    training_device,
)
from fleetledger.schemas.presence import Capabilities

ROOT = Path(methods.__path__[0])
FILES = {"README.md", "__init__.py", "settings.py", "messages.py", "device.py", "coordinator.py"}


def imported(path: Path) -> set[str]:
    """Return the full names of modules that a file imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return names


def capabilities(*features: str) -> Capabilities:
    return Capabilities(
        agent_version="1", python="3.10", machine="x", features=frozenset(features), memory_mib=1
    )


def test_every_folder_is_a_method_and_every_method_a_folder():
    folders = {path.parent.name for path in ROOT.glob("*/messages.py")}
    assert folders == set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_the_same_files(name):
    assert {path.name for path in (ROOT / name).iterdir()} >= FILES


@pytest.mark.parametrize("name", METHODS)
def test_the_sides_meet_only_in_messages(name):
    half_names = {f"fleetledger.methods.{name}.{side}" for side in ("device", "coordinator")}
    for path in (ROOT / name).glob("*.py"):
        wrong = imported(path) & half_names
        assert not wrong, f"{path.name} imports {wrong}"


@pytest.mark.parametrize("name", METHODS)
def test_no_method_imports_another(name):
    others = tuple(f"fleetledger.methods.{other}" for other in METHODS if other != name)
    for path in (ROOT / name).glob("*.py"):
        assert not [found for found in imported(path) if found.startswith(others or ("-",))]


@pytest.mark.parametrize("name", METHODS)
def test_a_card_names_its_folder_and_its_readme_cites_the_paper(name):
    found = descriptor(name)
    assert found.name == name
    assert found.citation in (ROOT / name / "README.md").read_text(encoding="utf-8")


def test_a_card_is_read_without_importing_a_side():
    program = (
        "import sys; from fleetledger.methods.registry import descriptor; descriptor('stsa')\n"
        "print([m for m in sys.modules if m.endswith(('.device', '.coordinator'))])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert done.stdout.decode().strip() == "[]"


def test_sides_are_loaded_by_name():
    assert type(statistics_device("stsa")).__module__ == "fleetledger.methods.stsa.device"
    assert type(statistics_coordinator("stsa")).__module__ == "fleetledger.methods.stsa.coordinator"
    assert [found.name for found in descriptors()] == list(METHODS)


@pytest.mark.parametrize("load", [descriptor, statistics_device, statistics_coordinator])
def test_an_unknown_name_is_answered_with_the_names_there_are(load):
    with pytest.raises(
        UnknownMethodError, match=f"'stsaa' is unknown; the methods are {', '.join(METHODS)}"
    ):
        load("stsaa")


def test_a_method_that_trains_needs_torch_on_a_device():
    assert can_learn(capabilities("numpy", "onnxruntime", "torch"), "rounds")
    assert not can_learn(capabilities("numpy", "onnxruntime"), "rounds")


def test_a_device_is_invited_only_to_what_it_can_run():
    assert can_learn(capabilities("numpy", "onnxruntime", "torch"), "stsa")
    assert not can_learn(capabilities("numpy"), "stsa")
    assert not descriptor("stsa").can_run("adapt", frozenset({"numpy", "onnxruntime", "torch"}))
    assert descriptor("stsa").can_run(LEARN, frozenset({"numpy", "onnxruntime"}))


@pytest.mark.parametrize("name", [name for name in METHODS if not descriptor(name).trains])
def test_both_sides_of_statistics_read_an_assignment(name):
    for side in (statistics_device(name), statistics_coordinator(name)):
        with pytest.raises(MethodError, match="feature_width: 0"):
            side.read_assignment({"settings": {}, "feature_width": 0})


@pytest.mark.parametrize("name", [name for name in METHODS if descriptor(name).trains])
@pytest.mark.torch
def test_both_sides_of_a_training_method_read_an_assignment(name):
    side = training_coordinator(name)
    with pytest.raises(MethodError, match="input_shape"):
        side.read_assignment({"settings": {}, "input_shape": []})
    assert training_device(name).assignment_type is side.assignment_type


@pytest.mark.parametrize("name", ["stsa", "rounds"])
def test_an_unknown_setting_is_told_with_the_nearest_name(name: str) -> None:
    side = training_coordinator(name) if descriptor(name).trains else statistics_coordinator(name)
    known = next(iter(side.assignment_type.model_fields["settings"].annotation.model_fields))
    shape = (3, 32, 32) if descriptor(name).trains else 64
    with pytest.raises(MethodError, match=rf"^method.settings.{known}s: .* mean '{known}'"):
        side.assign({f"{known}s": 1}, shape)
