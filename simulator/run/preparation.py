"""Preparation of a seed, before its fleet starts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fleetledger.schemas.values import Digest
from fleetledger.simulator.backbones.adapted import adapted_sight, frozen_file
from fleetledger.simulator.backbones.loading import Backbone, centred, load_backbone
from fleetledger.simulator.backbones.pixels import pixels_backbone
from fleetledger.simulator.backbones.scenes import scene_preprocessing
from fleetledger.simulator.base_session.central import central_base
from fleetledger.simulator.datasets.cache_folder import cache_folder
from fleetledger.simulator.datasets.images import Split
from fleetledger.simulator.datasets.loading import load_split
from fleetledger.simulator.datasets.segmentation.samples import SceneSet
from fleetledger.simulator.datasets.segmentation.tasks import TaskScenes
from fleetledger.simulator.engines.interface import Prepared, Watch
from fleetledger.simulator.features.bank import BankInputs, NetworkBank, open_bank
from fleetledger.simulator.features.interface import FeatureBank
from fleetledger.simulator.features.providers import choose_provider
from fleetledger.simulator.plan.fleet_plan import FleetPlan
from fleetledger.simulator.plan.hues import in_hues
from fleetledger.simulator.plan.plan_maker import make_plan
from fleetledger.simulator.plan.relabelled import as_given
from fleetledger.simulator.plan.tasks import by_task
from fleetledger.simulator.run.facts import Material
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.trainer import Trainer, adapts, trainer_of, trains_on_pictures


@dataclass(frozen=True)
class PreparedSeed:
    """The data, the plan and the frozen network of one seed."""

    scenario: Scenario
    split: Split
    plan: FleetPlan
    backbone: Backbone

    @classmethod
    def load(cls, scenario: Scenario, seed: int) -> PreparedSeed:
        """Load them; raise `DatasetError`, `PlanError`, `PartitionError` or `BackboneError`."""
        split = load_split(scenario.data, seed)
        plan = make_plan(scenario, split, seed)
        if isinstance(split.train, SceneSet) and isinstance(split.test, SceneSet):
            scenes, plan = by_task(Split(split.train, split.test), plan)
            return cls(scenario, scenes, plan, _segmenting_network(scenario, scenes))
        split = in_hues(scenario, as_given(split, plan), plan)
        return cls(scenario, split, plan, _network(scenario, split))

    @property
    def material(self) -> Material:
        """Digests of what the seed is made from."""
        return Material(
            train=self.split.train.fingerprint,
            test=self.split.test.fingerprint,
            backbone=Digest.of(self._frozen),
        )

    @property
    def _frozen(self) -> bytes:
        """What nobody trains: an ONNX file, or the weights that adapters are trained in."""
        file = frozen_file(self.scenario.backbone) if adapts(self.scenario) else None
        return self.backbone.data if file is None else file.read_bytes()

    def prepare(self, watch: Watch) -> Prepared:
        """Compute what is not in the caches yet, and return what engines take.

        Raises `EngineError` where a first stage that is trained in one place cannot be had.
        """
        prepared = Prepared(
            scenario=self.scenario,
            split=self.split,
            plan=self.plan,
            backbone_name=self.backbone.name,
            backbone=self.backbone.data,
            preprocessing=self.backbone.preprocessing,
            features=self._bank(watch),
        )
        return replace(prepared, base=central_base(prepared, watch))

    def _bank(self, watch: Watch) -> FeatureBank:
        cache, device = cache_folder("features"), self.scenario.engine.device
        classes = self.plan.seen(len(self.plan.stages))
        if not trains_on_pictures(self.scenario):
            return open_bank(self.split, self.backbone, cache, device, watch, classes=classes)
        sight, provider = self.backbone.preprocessing, choose_provider(device)
        return NetworkBank(BankInputs(self.split, classes, sight, provider, cache, watch))


def _network(scenario: Scenario, split: Split) -> Backbone:
    """Return the frozen network; of one that is trained on pictures, only how it sees them."""
    trainer = trainer_of(scenario)
    if trainer is None or not trains_on_pictures(scenario):
        return load_backbone(scenario.backbone, split)
    name = _name_of(trainer)
    if adapts(scenario):
        return Backbone(name, b"", centred(scenario.backbone, adapted_sight(scenario.backbone)))
    return Backbone(name, b"", pixels_backbone(split, scenario.backbone.shape).preprocessing)


def _segmenting_network(scenario: Scenario, split: Split[TaskScenes]) -> Backbone:
    """Return how the network sees pictures; nothing of it is frozen."""
    trainer = trainer_of(scenario)
    assert trainer is not None, "scenarios with masks are checked for that"
    method = scenario.method
    pretrained = method.trunk is not None or method.first_weights is not None
    seen = scene_preprocessing(split, scenario.backbone.shape, pretrained)
    return Backbone(_name_of(trainer), b"", seen)


def _name_of(trainer: Trainer) -> str:
    return str(trainer.settings.get("network", trainer.method))
