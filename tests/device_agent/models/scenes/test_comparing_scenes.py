"""Two models of pixels beside each other: a class counts once for each picture that shows it."""

from pathlib import Path

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import PendingComparison
from fleetledger.device_agent.core.requests import Compare, InstallModel, ShadowModel
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.device_agent.program.device_jobs import LocalDeviceJobs
from fleetledger.export.package import ExportedModel
from fleetledger.schemas.models import BACKGROUND
from fleetledger.schemas.rollouts import ModelComparison, Pairs
from fleetledger.schemas.values import ClassName
from fleetledger.transport.meter import Counts
from tests.device_agent import model_files as models
from tests.device_agent.models.scenes import dense
from tests.device_agent.models.scenes.dense import BLUE, GREEN, RED, blocks, put_scene
from tests.device_agent.scripted import write_settings

NOTHING = ClassName(BACKGROUND)


def compared(folder: Path, active: ExportedModel, candidate: ExportedModel) -> ModelComparison:
    """Compare two models on three held-out scenes and two others."""
    home = write_settings(folder, samples="scenes")
    blobs = BlobFolder(home.state_folder / "blobs")
    jobs = LocalDeviceJobs(home, blobs, ModelSlots(home.state_folder / "slots"), Counts)
    assert home.evaluation_folder is not None
    for root in (home.evaluation_folder, home.data_folder):
        dense.name_classes(root)
        put_scene(root, "both", blocks(0, 1, 2))
        put_scene(root, "red", blocks(0, 1))
    put_scene(home.evaluation_folder, "mistaken", blocks(0, 2), picture=blocks(0, 1))
    (installed,) = jobs.answer(InstallModel(models.store_model(blobs, active)))
    (kept,) = jobs.answer(ShadowModel(models.store_model(blobs, candidate)))
    assert isinstance(installed, inputs.ModelInstalled)
    assert isinstance(kept, inputs.CandidateKept)
    pending = PendingComparison(4, 1, "shadow", kept.candidate, installed.active)
    (event,) = jobs.answer(Compare(pending))
    assert isinstance(event, inputs.Compared), event
    return event.comparison


def test_equal_models_agree_on_every_picture(tmp_path: Path) -> None:
    found = compared(tmp_path, dense.exported(), dense.exported(version=2))
    assert found.classes == {
        NOTHING: Pairs(both=3),
        RED: Pairs(both=2),
        GREEN: Pairs(both=1, neither=1),
    }
    assert (found.agreed, found.unlabelled) == (2, 2)
    assert found.entropy_active == found.entropy_candidate
    assert found.entropy_active.images == 5


def test_a_class_that_the_candidate_lacks_is_only_the_active_models(tmp_path: Path) -> None:
    found = compared(tmp_path, dense.exported(), dense.exported(("red",), 2))
    assert found.classes[RED] == Pairs(both=2)
    assert found.classes[GREEN] == Pairs(only_active=1, neither=1)
    assert found.agreed == 1
    assert found.entropy_active.images == 3, "of the scene without green, and of those unlabelled"


def test_a_class_that_nobody_shows_is_not_told(tmp_path: Path) -> None:
    found = compared(tmp_path, dense.exported(), dense.exported(("red", "green", "blue"), 2))
    assert BLUE not in found.classes
    assert found.new_classes == ()
