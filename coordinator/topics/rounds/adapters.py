"""Adapters: a light network is trained on top of a model that was solved, and begins as that.

- It goes on top of the newest model of the frozen model that leads, once that model has everything
  that devices gave, and no stage is open.
- Some devices are held out, for good: no round asks them, and theirs is the word by which it is
  kept (`coordinator.topics.rollouts.accuracy_gates.better`).
- It has a stage of its own, for all classes of the model, with rounds like those of any network.
  What comes of them becomes a version, and the frozen model leads again, with all that was given
  for it: the next stage is learned by statistics, and its model knows nothing of the adapter.
- Who opens another stage meanwhile gives the adapter up.
"""

from __future__ import annotations

import math

from fleetledger.coordinator.core.decision import Decision, ask, record
from fleetledger.coordinator.core.entry import COORDINATOR
from fleetledger.coordinator.core.live import Live
from fleetledger.coordinator.core.phrases import some
from fleetledger.coordinator.core.requests import TellOperator
from fleetledger.coordinator.core.rules import AdapterRules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.core.work import PrepareAdapter, SolveHead
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.topics.lineages.capacity import check_lineage
from fleetledger.coordinator.topics.lineages.entries import Adapts, Lineage
from fleetledger.coordinator.topics.models.state import ModelVersion
from fleetledger.coordinator.topics.rounds.commands import AdaptModel
from fleetledger.coordinator.topics.stages.rules import Stages
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.rollouts import Share, place_of

_FEWEST = 2
"""Devices without which nobody would train, or nobody judge."""


class Adapting:
    """Decides whether an adapter may be trained, and begins it."""

    def __init__(self, rules: AdapterRules, state: State, live: Live, stages: Stages) -> None:
        self._rules = rules
        self._state = state
        self._live = live
        self._stages = stages

    def carry_out(self, command: AdaptModel) -> tuple[Decision, str]:
        """Have an adapter prepared; raise `CommandError` where that makes no sense."""
        model = self._model(command.version)
        judges = self._judges(model.version)
        self._live.making_model = True
        prepare = PrepareAdapter(
            adapts=Adapts(version=model.version, judges=judges),
            recipe=self._recipe(model),
            head=model.solved.head,
            logit_scale=self._state.models.logit_scale,
            settings=self._rules.settings,
        )
        admitted = self._state.devices.admitted
        held = sum(map(judges.has, admitted))
        has, say = ("has", "says") if held == 1 else ("have", "say")
        return ask(prepare), (
            f"an adapter is trained on top of model {model.version}, in the rounds of a stage of "
            f"its own; {held} of {count_of(len(admitted), 'device')} {has} no part in it, and "
            f"{say} whether it "
            "is better" + self._of_few(held)
        )

    def _of_few(self, held: int) -> str:
        """Return the sentence that so few judges cannot decide, or nothing."""
        gates = self._rules.plan.gates
        if gates.alike is not None or held >= gates.judges_needed:
            return ""
        return (
            f"; they are too few to show it by themselves, {gates.judges_needed} are needed: hold "
            "out more with [adapter] held_out, or say [adapter.plan.gates] alike"
        )

    def prepared(self, network: Lineage) -> Decision:
        """Let an adapter lead and open its stage, unless something else came in between."""
        self._live.making_model = False
        try:
            model = self._model(None if network.adapts is None else network.adapts.version)
            check_lineage(self._state, network)
            names, why = model.solved.class_names, f"an adapter on top of model {model.version}"
            return record(network) + self._stages.open(names, actor=COORDINATOR, reason=why)
        except CommandError as error:
            return self.not_prepared(str(error))

    def not_prepared(self, reason: str) -> Decision:
        """Say that there is no adapter."""
        self._live.making_model = False
        return ask(TellOperator(f"no adapter is trained: {reason}"))

    def _model(self, wanted: int | None) -> ModelVersion:
        """Return the model that an adapter goes on top of; raise `CommandError` if none can."""
        state = self._state
        backbone = state.lineages.backbone
        if backbone is None:
            raise CommandError(
                "adapt: no frozen model leads; an adapter goes on top of a head that was solved "
                "from statistics, such as stsa's"
            )
        if state.stages.open is not None:
            raise CommandError(
                f"adapt: stage {state.stages.open} is open; wait until it is learned, or "
                "`fleetledger coordinator close-stage`"
            )
        model = state.models.newest_of(backbone.digest)
        if model is None or model.exported is None or self._live.making_model:
            raise CommandError("adapt: the model is not made yet; say it again when it is")
        if wanted not in (None, model.version):
            raise CommandError(
                f"version: {wanted} is not the newest model that was solved; an adapter goes on "
                f"top of model {model.version}"
            )
        if not state.contributions.unchanged_since(model.solved.ledger_size):
            raise CommandError(
                f"adapt: devices gave something since model {model.version} was solved; say it "
                "again when the next model is there"
            )
        if unknown := sorted(set(state.classes.names) - set(model.solved.class_names)):
            raise CommandError(
                f"adapt: model {model.version} does not know {some(unknown)}, of which no device "
                "gave anything; rename or merge them, or wait until one does"
            )
        return model

    def _judges(self, version: int) -> Share:
        """Return the devices that are held out: so large a share of those that there are."""
        admitted, salt = self._state.devices.admitted, f"adapter-{version}"
        if len(admitted) < _FEWEST:
            raise CommandError(
                f"adapt: the fleet has {len(admitted)} device, and one trains while another one "
                "judges; admit more"
            )
        places = sorted(place_of(salt, device) for device in admitted)
        held = min(len(places) - 1, math.ceil(self._rules.held_out * len(places)))
        return Share(salt=salt, below=places[held - 1] + 1)

    def _recipe(self, model: ModelVersion) -> SolveHead:
        assert self._state.lineages.backbone is not None
        return SolveHead(
            version=model.version,
            lineage=self._state.lineages.backbone,
            ledger_size=model.solved.ledger_size,
            class_names=model.solved.class_names,
            resolution=self._state.classes.resolution(),
        )
