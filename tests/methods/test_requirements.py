"""Requirements: what of a lineage is somebody's own, and what is said where it is not here."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from fleetledger.learning.networks.registry import NETWORKS
from fleetledger.methods.registry import METHODS, can_learn
from fleetledger.methods.requirements import lacking, requirements, unable
from fleetledger.runtime import registry
from fleetledger.runtime.registry import Origin
from fleetledger.schemas.presence import Capabilities
from fleetledger.schemas.requirements import Requirement, code_of, feature_of
from tests import my_lab
from tests.outside import nothing_stays

Lay = Callable[..., None]
THEN = "restart the agent"
INSTALL = "install it (pip install my-lab==0.1) and restart the agent"
OURS = Requirement.of("method", "fedreg", Origin("my-lab", "0.1", "ab" * 32))


@pytest.fixture
def lay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lay]:
    """Lay the distribution into a folder of its own, so that it is the one that is installed."""
    folders = iter(range(9))

    def laid(version: str = "0.1", **code: str) -> None:
        forget()
        folder = my_lab.lay(tmp_path / str(next(folders)), version, **code)
        monkeypatch.syspath_prepend(folder)

    with nothing_stays(METHODS, NETWORKS):
        yield laid
    forget()


def forget() -> None:
    """Forget what is installed, as a start does."""
    for table in (METHODS, NETWORKS):
        table._added.clear()
    for found in (registry._points, registry._origin, registry._installed):
        found.cache_clear()
    sys.modules.pop("my_lab", None)


def test_what_is_ours_requires_nothing() -> None:
    assert requirements("rounds", "resnet8") == ()
    assert requirements("stsa") == ()
    assert requirements("rounds", "no such network") == ()


def test_a_method_and_a_network_are_required_of_their_distribution(lay: Lay) -> None:
    lay()
    method, network = requirements("fedreg", "lab_mlp")
    assert str(method) == "method 'fedreg' is of my-lab 0.1"
    assert str(network) == "network 'lab_mlp' is of my-lab 0.1"
    assert method.digest == network.digest
    assert "my_lab" not in sys.modules  # which may be large
    assert lacking((method, network), THEN) == ""
    assert unable("fedreg", (method, network), THEN) == ""


def test_what_is_not_here_is_to_be_installed() -> None:
    other = Requirement.of("network", "lab_mlp", Origin("my-lab", "0.1", "ab" * 32))
    assert lacking((OURS,), THEN) == (
        f"method 'fedreg' is of my-lab 0.1, which is not installed here; {INSTALL}"
    )
    said = unable("fedreg", (OURS, other), THEN)
    assert said == (
        "method 'fedreg' and network 'lab_mlp' are of my-lab 0.1, which is not installed here; "
        f"{INSTALL}"
    )


def test_a_file_that_is_not_installed_is_to_be_named_in_the_variable() -> None:
    needed = Requirement.of("network", "small", Origin("my lab.py", "", "ab" * 32))
    assert lacking((needed,), THEN) == (
        "network 'small' is of my_lab.py, which is not installed here; install it "
        "(FLEETLEDGER_MODULES=FOLDER/my_lab.py) and restart the agent"
    )


def test_other_code_is_not_the_fleets(lay: Lay) -> None:
    lay()
    needed = requirements("fedreg")
    lay("0.2", after="# mended\n")
    (here,) = requirements("fedreg")
    (there,) = needed
    assert here.digest is not None
    assert there.digest is not None
    assert lacking(needed, THEN) == (
        f"method 'fedreg' is of my-lab 0.1: my-lab 0.2 here has other code ({here.digest[:6]}… "
        f"where the fleet's is {there.digest[:6]}…); install the fleet's (pip install my-lab==0.1) "
        "and restart the agent"
    )


def test_the_same_code_of_another_version_will_do(lay: Lay) -> None:
    lay()
    needed = requirements("fedreg")
    lay("0.2")
    assert lacking(needed, THEN) == ""


def test_a_method_that_cannot_be_imported_is_said_and_raises_nothing(lay: Lay) -> None:
    lay(after="import a_library_that_nobody_has\n")
    needed = requirements("fedreg")
    said = unable("fedreg", needed, THEN)
    assert said.startswith("method: 'fedreg' is 'my_lab:FedReg' of my-lab 0.1, which cannot be ")
    assert "No module named 'a_library_that_nobody_has'" in said


def test_a_method_of_a_later_program_is_said_and_raises_nothing() -> None:
    said = unable("fedsomething", (), THEN)
    assert said.startswith("method 'fedsomething' is unknown to fleetledger ")
    assert said.endswith("install the coordinator's version and restart the agent")


def test_a_device_can_learn_by_its_birth_with_the_same_code_alone() -> None:
    def device(*features: str) -> Capabilities:
        able = frozenset({"numpy", "onnxruntime", "torch", *features})
        return Capabilities(agent_version="1", python="3", machine="m", features=able, memory_mib=1)

    assert OURS.feature == "my-lab@abababababab"
    assert can_learn(device(OURS.feature), "rounds", (OURS,))
    assert not can_learn(device(), "rounds", (OURS,))
    assert not can_learn(device("my-lab@cdcdcdcdcdcd"), "rounds", (OURS,))
    assert can_learn(device(), "rounds")


def test_a_capability_fits_a_birth_whatever_the_distribution_is_called() -> None:
    for name in ("a", "my lab.py", "x" * 200):
        assert len(feature_of(name, "ab" * 32)) <= 40
        assert feature_of(name, "").startswith(code_of(name))


@pytest.mark.parametrize(
    "wrong",
    [
        {"distribution": "my-lab; rm -rf /"},
        {"distribution": "-r"},
        {"version": "0.1 && true"},
        {"name": "Fed Reg"},
        {"kind": "metric"},
        {"digest": "ab"},
    ],
)
def test_what_would_be_no_command_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Requirement.model_validate({**OURS.model_dump(), **wrong})
