"""Rounds: a cohort trains from the fleet's weights, and the mean of its answers follows them.

The rules, for as long as a stage of a network is open:

- The cohort is drawn from the devices that are connected and able: the order is a hash of seed,
  round and device, so that it does not depend on who was admitted first.
- Where the network's method wants it, the others of these look at their images with the fleet's
  weights, and say what they saw. No round waits for them.
- After a start of the coordinator it waits a while for able devices that are not back yet.
- A round closes when everybody in it has answered, at its deadline, or with its stage. Answers that
  come later are recorded, and left out of that round for good.
- With fewer weights than the quorum, a round comes to nothing: the fleet's weights stay, and after
  a pause the next round begins. It does not count.
- A method may give a round several phases, and a stage phases after its rounds; each is a round of
  its own here, with a cohort and a mean.
- Where the network's method has a proxy, the next round waits for what it chooses; see
  `coordinator.core.proxy`.
- What is deleted of weights, `coordinator.core.retention` says.
- After the last round of a stage the network is taken as a model and the stage closes; where a
  successor is set, the network is frozen instead, and the stage goes on with statistics. The same
  comes of what was averaged when the operator closes a stage before its last round.
"""

from __future__ import annotations

import hashlib
import math

from coordinator.core import entries
from coordinator.core.decision import Decision, ask, record
from coordinator.core.live import NANOSECONDS, Live
from coordinator.core.proxy import Proxy
from coordinator.core.records import NEW_MODEL, OLD_MODEL, Round, Weights
from coordinator.core.requests import AverageInput, AverageRound, FreezeNetwork
from coordinator.core.retention import Retention
from coordinator.core.rules import RoundRules
from coordinator.core.stages import CanLearn, Stages
from coordinator.core.state import State
from schemas.offers import Offer
from schemas.values import DeviceId


class Rounds:
    """Decides when a round opens and closes, and what comes of it."""

    def __init__(
        self, rules: RoundRules, state: State, live: Live, stages: Stages, can_learn: CanLearn
    ) -> None:
        self._rules = rules
        self._state = state
        self._live = live
        self._stages = stages
        self._can_learn = can_learn
        self.proxy = Proxy(rules, state, live)
        self.retention = Retention(rules, state)

    def look(self, now_ns: int) -> Decision:
        """Close the open round, have a closed one averaged, or go on to what follows."""
        if self._live.since_ns is None:
            self._live.since_ns = now_ns
        if self._state.network is None or self._live.making_model:
            return Decision()
        current = self._state.current_round
        if current is not None and current.closed is None:
            return self._close_when_due(current, now_ns)
        if current is not None and not current.done:
            return self._average(current)
        stage = self._state.open_stage
        if stage is None:
            return self._finish() if self._is_untaken() else Decision()
        phases = self._phases(stage)
        done = self._state.rounds_averaged(stage)
        if done >= len(phases):
            return self._finish()
        if self._pauses(current, stage, now_ns) or self._gathers(now_ns):
            return Decision()
        until = self.proxy.waits_until()
        if until is None:
            return self._open(stage, phases, done)
        return Decision() if now_ns < until else self.proxy.missed()

    def averaged(self, body: entries.WeightsAveraged) -> Decision:
        """Record the fleet's new weights, unless another lineage leads by now."""
        self._live.making_model = False
        current = self._state.rounds.get(body.number)
        if body.lineage != self._lineage_digest() or current is None or current.done:
            return Decision()
        return record(body) + self.retention.done(current)

    def not_averaged(self, number: int, reason: str) -> Decision:
        """Record that a round came to nothing, so that the same answers are not tried again."""
        self._live.making_model = False
        current = self._state.rounds.get(number)
        if current is None or current.done:
            return Decision()
        failed = entries.RoundFailed(number=number, reason=reason[:2000])
        return record(failed) + self.retention.done(current)

    def frozen(self, backbone: entries.BackboneImported) -> Decision:
        """Let the frozen network lead; the stage that is open goes on with statistics."""
        self._live.making_model = False
        return record(backbone) if self._state.network is not None else Decision()

    def _open(self, stage: int, phases: tuple[str, ...], done: int) -> Decision:
        state = self._state
        number = state.last_round + 1
        able = self._able()
        cohort = self._cohort(able, number)
        if not cohort or state.weights is None:
            return Decision()
        opened = entries.RoundOpened(
            number=number,
            phase=phases[done],
            stage=stage,
            round_of_stage=done + 1,
            rounds_of_stage=len(phases),
            cohort=cohort,
            observers=self._observers(able, cohort, phases[done]),
            weights=state.weights.offer,
            weights_class_names=tuple(map(state.classes.resolve, state.weights.class_names)),
            class_names=state.classes.names,
            extras=self._extras(state.weights),
            seed=_seed(self._rules.seed, number),
            deadline_seconds=self._rules.deadline_seconds,
        )
        return record(opened) + self.retention.older_weights()

    def _extras(self, weights: Weights) -> dict[str, Offer]:
        """Return what devices get beside the weights; old models are those of the proxy, if any."""
        network, extras = self._state.network, dict(weights.extras)
        assert network is not None
        if network.proxy:
            # The mean passes on what it was given, and the proxy may have chosen anew since.
            extras = {n: offer for n, offer in extras.items() if n not in (OLD_MODEL, NEW_MODEL)}
        return extras | self._state.old_models.offers

    def _observers(
        self, able: list[DeviceId], cohort: tuple[DeviceId, ...], phase: str
    ) -> tuple[DeviceId, ...]:
        """Return who looks while others train, once in each of a stage's rounds."""
        network = self._state.network
        assert network is not None
        if not network.observes or phase != network.round_phases[0]:
            return ()
        return tuple(sorted(set(able).difference(cohort)))

    def _cohort(self, able: list[DeviceId], number: int) -> tuple[DeviceId, ...]:
        if not able:
            return ()
        asked = self._rules.cohort
        wanted = asked if isinstance(asked, int) else max(1, math.ceil(asked * len(able)))
        if wanted >= len(able):
            return tuple(sorted(able))
        order = sorted(able, key=lambda device: _draw(self._rules.seed, number, device))
        return tuple(sorted(order[:wanted]))

    def _able(self) -> list[DeviceId]:
        """Return the devices that are there and can train."""
        network, answers = self._state.network, dict[int, bool]()
        assert network is not None
        able = []
        for device, known in self._state.devices.items():
            capabilities = known.capabilities
            if capabilities is None or self._live.device(device).boot is None:
                continue
            # Devices of a kind share one object, and a method is asked once for each kind.
            kind = id(capabilities)
            if kind not in answers:
                answers[kind] = self._can_learn(capabilities, network.method)
            if answers[kind]:
                able.append(device)
        return able

    def _can_train(self, device: DeviceId) -> bool:
        capabilities, network = self._state.devices[device].capabilities, self._state.network
        assert network is not None
        return capabilities is not None and self._can_learn(capabilities, network.method)

    def _pauses(self, current: Round | None, stage: int, now_ns: int) -> bool:
        """Whether the last round of the stage came to nothing a moment ago."""
        if current is None or current.averaged or current.opened.stage != stage:
            return False
        assert current.ended_ns is not None  # it is done
        return (now_ns - current.ended_ns) / NANOSECONDS < self._rules.pause_seconds

    def _gathers(self, now_ns: int) -> bool:
        """Whether devices that can train may still come back after a start of the coordinator."""
        assert self._live.since_ns is not None
        if (now_ns - self._live.since_ns) / NANOSECONDS >= self._rules.gather_seconds:
            return False
        return any(
            self._live.device(device).boot is None and self._can_train(device)
            for device in self._state.devices
        )

    def _close_when_due(self, current: Round, now_ns: int) -> Decision:
        opened = current.opened
        if current.heard >= current.cohort:
            return self._close(current, "everybody answered")
        if opened.stage != self._state.open_stage:
            return self._close(current, f"stage {opened.stage} is closed")
        if (now_ns - current.opened_ns) / NANOSECONDS >= opened.deadline_seconds:
            return self._close(current, f"deadline of {opened.deadline_seconds:g} s")
        return Decision()

    def _close(self, current: Round, why: str) -> Decision:
        opened = current.opened
        # Devices without data are no reason to give a round up.
        able = len(opened.cohort) - len(current.nothing)
        needed = max(1, math.ceil(self._rules.quorum * able))
        enough, heard = len(current.answers) >= needed, current.heard
        if not enough:
            why = f"{why}, with {len(current.answers)} of {needed} answers needed"
        closed = entries.RoundClosed(
            number=opened.number,
            reason=why,
            counted=tuple(item.index for item in current.answers.values()) if enough else (),
            nothing=tuple(sorted(current.nothing)),
            failed=tuple(sorted(current.unable)),
            missing=tuple(device for device in opened.cohort if device not in heard),
        )
        return record(closed) + (Decision() if enough else self.retention.done(current))

    def _average(self, current: Round) -> Decision:
        network = self._state.network
        assert network is not None
        self._live.making_model = True
        inputs = tuple(
            AverageInput(item.index, item.payload, item.samples)
            for item in current.answers.values()
        )
        return ask(AverageRound(network, current.opened, inputs))

    def _is_untaken(self) -> bool:
        """Whether there are weights of which no model was made."""
        weights, newest = self._state.weights, self._state.newest_model
        if weights is None or weights.averaged_index is None:
            return False
        return newest is None or newest.solved_index < weights.averaged_index

    def _finish(self) -> Decision:
        """Take the network as a model and close the stage, or freeze it for its successor."""
        network, weights = self._state.network, self._state.weights
        assert network is not None
        assert weights is not None
        averaged, index = weights.averaged, weights.averaged_index
        assert averaged is not None
        assert index is not None
        if network.successor is not None:
            failed = self._state.failed
            if failed is not None and failed.inputs == averaged.inputs:
                return Decision()  # it would fail again
            self._live.making_model = True
            return ask(FreezeNetwork(network, averaged))
        taken = entries.ModelSolved(
            version=max(self._state.models, default=0) + 1,
            lineage=network.digest,
            inputs=(index,),
            class_names=averaged.class_names,
            aggregate=averaged.aggregate,
            head=averaged.weights.digest,
            method=network.method,
            fingerprint=averaged.fingerprint,
            seconds=averaged.seconds,
            remarks=averaged.remarks,
        )
        stage = self._state.open_stage
        if stage is None:
            return record(taken)
        rounds = self._state.rounds_averaged(stage)
        return record(taken) + self._stages.finish(f"{rounds} rounds")

    def _phases(self, stage: int) -> tuple[str, ...]:
        """Return the phases of a stage, each a round."""
        network, first = self._state.network, self._rules.per_first_stage
        assert network is not None
        rounds = first if stage == 1 and first is not None else self._rules.per_stage
        return network.round_phases * rounds + network.closing_phases

    def _lineage_digest(self) -> str | None:
        return None if self._state.lineage is None else self._state.lineage.digest


def _draw(seed: int, number: int, device: DeviceId) -> bytes:
    return hashlib.sha256(f"{seed}/{number}/{device}".encode()).digest()


def _seed(seed: int, number: int) -> int:
    """Return the seed of a round: 63 bits."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{number}".encode()).digest()[:8], "big") >> 1
