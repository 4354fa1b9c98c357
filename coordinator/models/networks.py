"""Begins the lineage of a network that the fleet trains, on pictures or on features."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from fleetledger.coordinator.errors import NetworkSettingsError
from fleetledger.coordinator.ledger.blobs import BlobStore
from fleetledger.coordinator.models import first_files
from fleetledger.coordinator.models.backbones import limits_of
from fleetledger.coordinator.models.file_offers import offer_of
from fleetledger.coordinator.models.pixel_networks import check_pixels
from fleetledger.coordinator.paths import blob_folder
from fleetledger.coordinator.settings import (
    CoordinatorSettings,
    FirstStageSection,
    MethodSection,
    load,
)
from fleetledger.coordinator.topics.lineages.entries import (
    FrozenBackbone,
    NetworkImported,
    Successor,
)
from fleetledger.export.frozen import plain_frozen
from fleetledger.export.golden import frozen_features, read_dense_golden
from fleetledger.export.judging import judged_backbone, judged_golden
from fleetledger.export.judging_messages import BackboneRequest
from fleetledger.export.model_file import read_model_file
from fleetledger.export.network import export_network
from fleetledger.export.network_head import NetworkHead
from fleetledger.export.preprocessing_file import load_preprocessing, remarks_on_units
from fleetledger.export.runtime import LoadedModel
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.segmentation.network import SegmentationNetwork
from fleetledger.methods import requirements as here
from fleetledger.methods.registry import descriptor, training_coordinator
from fleetledger.methods.training.network_weights import Arrays
from fleetledger.methods.training.sides import AnyTrainingAssignment
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.pip_command import pip_install
from fleetledger.schemas.models import AnyPreprocessing, of_pictures
from fleetledger.schemas.privacy import Masks
from fleetledger.schemas.tensors import encode_tensors
from fleetledger.schemas.values import ClassName

_PROBE = (ClassName("probe"), ClassName("probe-2"))


@dataclass(frozen=True)
class _Frozen:
    """A backbone as devices get it, and the number of its features."""

    name: str
    file: bytes
    golden: bytes
    feature_width: int
    remarks: tuple[str, ...]

    @property
    def described(self) -> FrozenBackbone:
        """What the ledger says of it."""
        file = offer_of(self.file)
        return FrozenBackbone(name=self.name, frozen=file, feature_width=self.feature_width)


def prepare_network(
    home: Path,
    preprocessing_file: Path,
    backbone: Path | None = None,
    *,
    pool: bool = False,
    weights_file: Path | None = None,
    first: first_files.FirstFiles | None = None,
) -> NetworkImported:
    """Make the first weights of the network that the settings name, store them, describe them.

    With a `backbone`, an ONNX feature extractor, the network is trained on its features; `pool`
    averages a feature map over its pixels. `weights_file` gives the tensors that nobody trains and
    needs torch; `first` names weights to begin with and images that all devices get. Raises
    `NetworkSettingsError` where the method trains no such network, `MethodError`, `ModelFileError`.
    """
    settings, first = load(home), first or first_files.FirstFiles()
    method, successor = _who_trains(settings)
    name, known = str(method.settings.get("network", method.name)), descriptor(method.name)
    _check_begins(successor, first)
    _check_sight(settings, method.name, preprocessing_file, backbone, pool=pool)
    preprocessing = load_preprocessing(preprocessing_file)
    _check_samples(preprocessing, method, backbone, weights_file)
    frozen = None if backbone is None else _frozen(backbone, preprocessing, settings, pool=pool)
    side = training_coordinator(method.name)
    shape = preprocessing.shape if frozen is None else (frozen.feature_width,)
    assignment = side.assign(method.settings, shape)
    _check_assignment(settings, method.name, assignment)
    begins = first_files.first_weights(side, assignment, first)
    extras = first_files.extras_of(side, assignment, first.public_images, preprocessing)
    network, arrays, _ = side.network_of(assignment, begins.data)
    base = first_files.base_tensors(network, name, weights_file)
    golden = _golden(network, arrays, preprocessing, frozen, base)
    base_data, frozen_data = encode_tensors(base) if base else None, frozen.file if frozen else None
    store = BlobStore(settings.blobs or blob_folder(home))
    for data in filter(None, (begins.data, golden, frozen_data, base_data, *extras.values())):
        store.put(data)
    return NetworkImported(
        name=name,
        weights=offer_of(begins.data),
        class_names=begins.class_names,
        extras={name: offer_of(data) for name, data in extras.items()},
        golden=offer_of(golden),
        preprocessing=preprocessing,
        method=method.name,
        settings=assignment.model_dump(mode="json"),
        opening_phases=assignment.opening_phases,
        round_phases=assignment.round_phases,
        closing_phases=assignment.closing_phases,
        answer_privacy=assignment.privacy,
        first_weights_suffice=assignment.first_weights_suffice,
        successor=successor,
        backbone=frozen and frozen.described,
        base=None if base_data is None else offer_of(base_data),
        observes=known.observes and assignment.everybody_observes,
        proxy=known.proxy and assignment.has_proxy,
        segments=known.segments,
        remarks=tuple(remarks_on_units(preprocessing)) if frozen is None else frozen.remarks,
        requires=here.requirements(method.name, getattr(assignment.settings, "network", name)),
    )


def _check_begins(successor: Successor | None, first: first_files.FirstFiles) -> None:
    if successor is not None and first.weights is not None:
        raise NetworkSettingsError(
            f"first weights: {first.weights} given, but [first_stage] trains a network that "
            f"freezes for {successor.method!r}; leave --first-weights out"
        )


def _check_assignment(
    settings: CoordinatorSettings, method: str, assignment: AnyTrainingAssignment
) -> None:
    """Raise `NetworkSettingsError` for noise that hides nothing, and where torch is lacking."""
    if settings.rounds.asynchronous is not None and assignment.adds_noise:
        raise NetworkSettingsError(
            "method.settings.privacy: asynchronous rounds get no noise of the coordinator's; leave "
            "[rounds.asynchronous] out, or give where = 'local'"
        )
    rules, privacy = settings.privacy, assignment.privacy
    if rules.masks and privacy is not None and privacy.where == "cohort":
        most = Masks(least=rules.least, most=rules.cohort).least_honest
        if privacy.least > most:
            raise NetworkSettingsError(
                f"method.settings.privacy.least: {privacy.least}; a sum behind masks has "
                f"{count_of(most, 'member')} for sure, so give at most so many, or larger cohorts"
            )
    if assignment.coordinator_trains and find_spec("torch") is None:
        raise NetworkSettingsError(
            f"method.settings: with these {method!r} needs torch at the coordinator, and it is not "
            f"installed here; {pip_install('train')}, or change the settings"
        )


def _check_sight(
    settings: CoordinatorSettings,
    method: str,
    preprocessing_file: Path,
    backbone: Path | None,
    *,
    pool: bool,
) -> None:
    """Raise `NetworkSettingsError` where a method cannot see what it is given."""
    if backbone is None and descriptor(method).on_features:
        raise NetworkSettingsError(
            f"backbone: {method!r} trains on the features of a frozen backbone; name one: "
            f"`fleetledger model import-network --preprocessing {preprocessing_file} "
            "--backbone FILE.onnx`"
        )
    if backbone is not None and settings.first_stage is not None:
        raise NetworkSettingsError(
            f"backbone: {backbone} given, but [first_stage] trains a network on pictures, which "
            f"freezes and is the backbone of {settings.method.name!r}; leave --backbone out, or "
            "remove [first_stage]"
        )
    if backbone is None and pool:
        raise NetworkSettingsError("pool: is about a backbone's output; give --backbone with it")


def _check_samples(
    preprocessing: AnyPreprocessing,
    method: MethodSection | FirstStageSection,
    backbone: Path | None,
    weights: Path | None,
) -> None:
    """Raise `NetworkSettingsError` where a method is not trained on such samples."""
    known = descriptor(method.name)
    if known.segments:
        check_pixels(method.name, preprocessing, backbone, weights)
    if preprocessing.mode != "array" or backbone is not None:
        return
    if known.of_pictures:
        raise NetworkSettingsError(
            f"preprocessing.mode: 'array', and {method.name!r} trains on pictures alone; give "
            "another method, such as 'rounds'"
        )
    changing = [name for name in ("pad", "flip") if method.settings.get(name)]
    if changing:
        raise NetworkSettingsError(
            f"method.settings.{changing[0]}: {method.settings[changing[0]]!r} changes pictures, "
            "and the samples are arrays; leave it out"
        )


def _frozen(
    file: Path, preprocessing: AnyPreprocessing, settings: CoordinatorSettings, *, pool: bool
) -> _Frozen:
    wanted, limits = BackboneRequest(preprocessing, pool=pool), limits_of(settings)
    imported = judged_backbone(read_model_file(file), wanted, limits)
    frozen = plain_frozen(imported.model)
    golden = judged_golden(frozen, preprocessing, limits)
    return _Frozen(file.stem, frozen, golden, imported.feature_width, imported.remarks)


def _golden(
    network: Network | SegmentationNetwork,
    first: Arrays,
    preprocessing: AnyPreprocessing,
    frozen: _Frozen | None,
    base: Arrays,
) -> bytes:
    """Return the golden batch of a network that begins with the tensors `first`.

    A network that cannot be exported is refused now, and not after a stage.
    """
    if isinstance(network, SegmentationNetwork):
        files = export_network(network, first, preprocessing)
        # Weights whose features are no numbers are refused now, too.
        inputs = read_dense_golden(files.golden, of_pictures(preprocessing))
        frozen_features(LoadedModel(files.trunk), preprocessing.input_name, inputs[:1])
        return files.golden
    arrays = network.initial(0, _PROBE)
    if frozen is None:
        return export_network(network, arrays, preprocessing, base).golden
    NetworkHead(network, arrays, frozen.feature_width, base).file(1.0)
    return frozen.golden


def _who_trains(
    settings: CoordinatorSettings,
) -> tuple[MethodSection | FirstStageSection, Successor | None]:
    """Return the method that trains, and what follows it."""
    fleet, first = settings.method, settings.first_stage
    if first is not None:
        if not descriptor(first.name).freezes_for(descriptor(fleet.name)):
            raise NetworkSettingsError(
                f"first_stage.name: {first.name!r} before method.name {fleet.name!r}; give a "
                "method that trains before a method of statistics"
            )
        if descriptor(first.name).segments:
            raise NetworkSettingsError(
                f"first_stage.name: {first.name!r} trains a network that gives every pixel a "
                f"class, and {fleet.name!r} goes on with features of whole pictures; give another "
                "method, or make it the fleet's own: method.name"
            )
        requires = here.requirements(fleet.name)
        noise = settings.privacy.noise
        return first, Successor(
            method=fleet.name,
            settings=fleet.settings,
            requires=requires,
            noise=None if noise is None else noise.told,
        )
    if not descriptor(fleet.name).trains:
        raise NetworkSettingsError(
            f"method.name: {fleet.name!r} trains no network; import a frozen one with "
            "`fleetledger model import-backbone FILE --preprocessing FILE`, or add a section "
            "[first_stage]"
        )
    return fleet, None
