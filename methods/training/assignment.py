"""The base of what both sides of a method that trains are told."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, ClassVar, Generic, Literal, TypeVar

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    StrictBool,
    StringConstraints,
    ValidationError,
)
from typing_extensions import Self

from fleetledger.learning.errors import LearningError
from fleetledger.learning.networks.head import HeadKind
from fleetledger.learning.networks.module_body import ModuleBody
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.registry import build_network
from fleetledger.learning.networks.segmentation.network import SegmentationNetwork
from fleetledger.learning.numerics.calibration import TRAINED_SCALE
from fleetledger.methods.errors import MethodError
from fleetledger.methods.training.private_updates import UpdatePrivacy
from fleetledger.methods.training.steps import TrainingSteps
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.arrays import MAX_RANK
from fleetledger.schemas.message import Message, explain
from fleetledger.schemas.rounds import TRAIN


class AveragedSettings(Strict):
    """The settings that every method that trains has beside its own."""

    seed: int = Field(default=1, ge=0, lt=2**31)
    """Of the first weights and of new rows of the head."""
    averaging: Literal["samples", "plain"] = "samples"
    """Weigh answers by their number of samples, or alike."""


def _pairs(given: object) -> object:
    return tuple(sorted(given.items())) if isinstance(given, Mapping) else given


OptionName = Annotated[str, StringConstraints(min_length=1, max_length=64)]
NetworkOptions = Annotated[
    tuple[tuple[OptionName, StrictBool | int | float | Annotated[str, Field(max_length=256)]], ...],
    BeforeValidator(_pairs),
    PlainSerializer(dict),
    Field(max_length=32),
]
"""A table of names and plain values; a value with a hash once it is read."""


class NamedNetworkSettings(AveragedSettings):
    """The settings of methods that train a network by its name."""

    network: str
    """A name of `learning.networks`, or of a network of one's own."""
    network_options: NetworkOptions = ()
    """What a network of one's own is made with beside the shape of its inputs, by name."""


SettingsT_co = TypeVar("SettingsT_co", bound=AveragedSettings, covariant=True)


class TrainingAssignment(Message, Generic[SettingsT_co]):
    """Settings, and the shape of one sample; the same for a whole lineage.

    A method subclasses it with its settings, a `kind` and its network, and says what else is true
    of it.
    """

    settings: SettingsT_co
    input_shape: tuple[int, ...] = Field(min_length=1, max_length=MAX_RANK)
    """Channels, height and width of a picture; the shape of an array; or the number of a frozen
    backbone's features."""

    steps_type: ClassVar[type[TrainingSteps]] = TrainingSteps
    """Of a method that takes them from outside, its base or a subclass of somebody's own."""

    @property
    def steps(self) -> TrainingSteps:
        """What a method of one's own may change, by these settings."""
        return self.steps_type.of(self.settings)

    @property
    @abstractmethod
    def network(self) -> Network | SegmentationNetwork:
        """The network that is trained."""

    adds_answers: ClassVar[bool] = False
    """Whether all that is made of answers is their mean, in every phase."""

    def masked_form(self) -> None:
        """Raise `MethodError` unless answers are integers that can be summed behind masks."""
        if not self.adds_answers or getattr(self.settings, "upload", "") != "int32":
            raise MethodError(
                f"masks: answers of {self.kind.removesuffix('-assignment')!r} are not summed "
                "behind masks; take rounds or fedhaf with upload = 'int32', or set "
                "[privacy] masks = false"
            )

    @property
    def is_weighted(self) -> bool:
        """Whether answers are weighed by their number of samples."""
        return self.settings.averaging == "samples"

    @property
    def privacy(self) -> UpdatePrivacy | None:
        """How answers are clipped, and which noise hides them; None for neither."""
        return None

    @property
    def adds_noise(self) -> bool:
        """Whether the coordinator adds noise to the mean of a round."""
        return self.privacy is not None and self.privacy.central > 0

    @property
    def hides_in_sum(self) -> bool:
        """Whether noise hides a device in the sum of a round's answers, and not in its own."""
        privacy = self.privacy
        return privacy is not None and privacy.noise > 0 and privacy.where != "local"

    @property
    def opening_phases(self) -> tuple[str, ...]:
        """What devices do once before a stage's rounds."""
        return ()

    @property
    def round_phases(self) -> tuple[str, ...]:
        """What devices do in one round, one phase after the other: they train, and that is all.

        A later phase is asked of those whose updates counted in the phase before it, which its
        order names (`RoundOrder.follows`). Where it comes to nothing, the round begins again from
        the weights that it began with. Phases before the last usually give back the bytes of the
        weights that were sent, and further extras.
        """
        return (TRAIN,)

    @property
    def closing_phases(self) -> tuple[str, ...]:
        """What devices do once after a stage's rounds."""
        return ()

    @property
    def logit_scale(self) -> float:
        """Inverse temperature of models until one is fitted: softmax(logit_scale * scores)."""
        return TRAINED_SCALE

    @property
    def first_weights_suffice(self) -> bool:
        """Whether a stage whose classes lie in imported first weights has closing phases alone."""
        return False

    @property
    def needs_shared(self) -> bool:
        """Whether the operator gives images with the network, which devices get as `SHARED`."""
        return False

    @property
    def coordinator_trains(self) -> bool:
        """Whether the coordinator needs torch: to combine updates, or for a module from outside."""
        return isinstance(self.network.body, ModuleBody)

    @property
    def everybody_observes(self) -> bool:
        """Whether devices outside a round's cohort look for new tasks too."""
        return False

    @property
    def has_proxy(self) -> bool:
        """Whether this fleet needs a proxy."""
        return False

    @classmethod
    def from_values(cls, body: Mapping[str, object]) -> Self:
        """Return an assignment from JSON values; raise `MethodError` naming field and value."""
        try:
            return cls.model_validate(body)
        except ValidationError as error:
            raise MethodError(f"assignment: {explain(error)}") from error


def refuse_features(body: Mapping[str, object], method: str) -> None:
    """Raise `MethodError` where a method that trains whole networks is to train on features."""
    shape = body.get("input_shape", ())
    if isinstance(shape, list | tuple) and len(shape) == 1:
        raise MethodError(
            f"input_shape: {tuple(shape)} are the features of a frozen backbone, and {method} "
            "trains whole networks on pictures; import the network without one"
        )


def named_network(
    settings: NamedNetworkSettings, shape: tuple[int, ...], head: HeadKind = "linear"
) -> Network:
    """Return the network that the settings name, with its options; raise `NetworkError`."""
    return build_network(settings.network, shape, head, settings.network_options)


def check_whole_network(
    settings: NamedNetworkSettings, shape: tuple[int, ...], method: str, head: HeadKind = "linear"
) -> None:
    """Raise `ValueError` unless the network takes such pictures and is trained as a whole."""
    name = settings.network
    try:
        network = named_network(settings, shape, head)
    except LearningError as error:
        raise ValueError(
            f"settings.network: {name!r} cannot take pictures of shape {shape}: {error}"
        ) from error
    if network.body.base_plan():
        raise ValueError(
            f"settings.network: of {name!r} only a part is trained, and {method} trains whole "
            "networks; give another one"
        )
