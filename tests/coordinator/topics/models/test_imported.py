"""Models that were made elsewhere are versions beside those that the fleet learns."""

from __future__ import annotations

from fleetledger.coordinator.core.rules import ModelRules, Rules, StageRules
from fleetledger.coordinator.core.work import PackImported
from fleetledger.coordinator.topics.models.commands import HoldModels, ImportModel, PushModel
from fleetledger.coordinator.topics.models.entries import (
    ImportedFiles,
    ModelDesired,
    ModelImported,
    ModelSolved,
    TemperatureFitted,
)
from fleetledger.coordinator.topics.models.kinds import not_made
from fleetledger.coordinator.topics.stages.commands import OpenStage
from fleetledger.schemas.file_reference import FileReference
from fleetledger.schemas.models import Parity, Preprocessing
from fleetledger.schemas.values import ClassName
from tests.coordinator.core.harness import Bench, contribution, exported, offer
from tests.coordinator.topics.models.test_models import wanted
from tests.coordinator.topics.models.test_temperature import bowl, evaluation

RULES = Rules(stages=StageRules(quiet_seconds=1000), models=ModelRules(solve_every_seconds=0))
BIRDS = ImportedFiles(
    name="birds.onnx",
    file=FileReference.of(b"birds"),
    frozen=offer("own frozen"),
    head=offer("own head"),
    golden=offer("own golden"),
    golden_scores=offer("own scores"),
    class_names=(ClassName("wren"), ClassName("robin")),
    preprocessing=Preprocessing(
        mode="L", size=(8, 8), mean=(0.0,), deviation=(1.0,), input_name="image"
    ),
    feature_width=32,
    cut="features",
    parity=Parity(max_absolute_difference=0, agreement=1, samples=8, runtime="test"),
    tolerance=0.05,
)


def bodies(bench: Bench, kind: type) -> list:
    return [body for body, _, _ in bench.entries if isinstance(body, kind)]


def take_in(bench: Bench) -> int:
    """Import a model and have its manifest written; return its version."""
    before = len(bench.entries)
    assert bench.command(ImportModel(model=BIRDS)).done
    (imported,) = [body for body, _, _ in bench.entries[before:] if isinstance(body, ModelImported)]
    bench.handle(exported(imported.version))
    return imported.version


def test_its_manifest_is_asked_for_at_once_and_again_after_a_crash() -> None:
    bench = Bench(RULES)
    bench.command(ImportModel(model=BIRDS))
    bench.restart()
    (packing,) = [item for item in bench.wait(1) if isinstance(item, PackImported)]
    assert (packing.version, packing.index, packing.imported.name) == (1, 0, "birds.onnx")
    bench.handle(exported(1))
    assert not [item for item in bench.wait(1) if isinstance(item, PackImported)]


def test_it_goes_nowhere_before_it_is_pushed() -> None:
    bench = Bench(RULES)
    bench.begin("dev-1")
    version = take_in(bench)
    bench.wait(100)
    assert not bodies(bench, ModelDesired)
    assert bench.command(PushModel(version=version)).done
    assert bodies(bench, ModelDesired)[0].version == version


def test_a_manifest_that_cannot_be_written_is_tried_again_with_the_next_import() -> None:
    bench = Bench(RULES)
    bench.command(ImportModel(model=BIRDS))
    bench.handle(not_made("the disk is full"))
    assert not [item for item in bench.wait(1) if isinstance(item, PackImported)]
    assert not bench.command(PushModel(version=1)).done
    bench.command(ImportModel(model=BIRDS))
    for version in (1, 2):
        bench.handle(exported(version))
        bench.wait(1)
    assert bench.command(PushModel(version=1)).done
    assert bench.command(PushModel(version=2)).done


def test_learning_goes_on_beside_it_and_is_not_made_again_for_it() -> None:
    bench = Bench(RULES)
    bench.begin("dev-1", "dev-2")
    bench.give("dev-1", contribution("a"))
    bench.make_model(wanted(bench.wait(1)))
    assert take_in(bench) == 2
    requests = bench.wait(100)
    assert len(bodies(bench, ModelSolved)) == 1
    assert not requests, "nothing that devices gave has changed"
    bench.give("dev-2", contribution("b"))
    request = wanted(bench.wait(1))
    assert request.version == 3
    bench.make_model(request)
    assert [body.version for body in bodies(bench, ModelDesired)] == [1, 3]


def test_what_devices_measure_of_it_fits_no_temperature() -> None:
    bench = Bench(RULES)
    bench.begin("dev-1", "dev-2")
    version = take_in(bench)
    bench.message("dev-1", evaluation(bowl(4), version))
    bench.wait(1)
    assert not bodies(bench, TemperatureFitted)


def test_a_fleet_that_does_not_learn_is_asked_for_no_stage() -> None:
    bench = Bench(RULES.model_copy(update={"learning": False}))
    answer = bench.command(OpenStage(class_names=(ClassName("cat"),)))
    assert not answer.done
    assert "open-stage: this fleet runs models and does not learn" in answer.text
    assert "fleetledger model import" in answer.text
    assert bench.command(HoldModels()).done
    assert bench.command(ImportModel(model=BIRDS)).done
