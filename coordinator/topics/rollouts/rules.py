"""Rules of rollouts: what goes out next, who is not waited for, and when a verdict is due.

- **One at a time.** A rollout that begins supersedes the active one; what that one put on devices
  stays what they run until a group of the new one has them.
- **A phase of a group** lasts until every member has reported or is unreached, or until its
  deadline. All evidence so far is judged after every report, whatever phase it is from.
- **A gate that fails** ends the rollout at once: every device goes back, or a person decides, who
  also does where one device alone makes it fail, and where a phase ends without enough evidence.
- **A group that passed** soaks, and a gate that fails meanwhile still ends the rollout; then the
  next group opens, once it is approved where it has to be.
- **Silent devices** fail nothing: who is away for long is named in an entry, and not waited for.
- **A person who lets it go on** forgives what was found so far, and nothing else.

All of it is a function of the ledger, of who is there, and of the time.
"""

from __future__ import annotations

from dataclasses import replace

from fleetledger.coordinator.core.decision import Decision, record
from fleetledger.coordinator.core.entry import OPERATOR
from fleetledger.coordinator.core.live import NANOSECONDS, Live
from fleetledger.coordinator.core.phrases import count_of, some
from fleetledger.coordinator.core.rules import Rules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.topics.lineages.entries import Adapts
from fleetledger.coordinator.topics.models.entries import ModelDesired
from fleetledger.coordinator.topics.models.state import ModelVersion
from fleetledger.coordinator.topics.rollouts import commands, entries, opening
from fleetledger.coordinator.topics.rollouts.moments import retries, unreached
from fleetledger.coordinator.topics.rollouts.plan import RolloutPlan
from fleetledger.coordinator.topics.rollouts.state import BEGUN, NOT_BEGUN, OPEN, Phase, Rollout
from fleetledger.coordinator.topics.rollouts.verdict import RolloutVerdict, judge

_HOUR_NS = 3600 * NANOSECONDS


class Rollouts:
    """Decides what becomes of rollouts."""

    def __init__(self, rules: Rules, state: State, live: Live) -> None:
        self._rules = rules
        self._state = state
        self._live = live
        self._judged: tuple[object, ...] | None = None

    def carry_out(self, command: commands.RolloutCommand) -> tuple[Decision, str]:
        """Return what a command decides and a sentence for the operator."""
        match command:
            case commands.PlanRollout():
                return self._plan(command)
            case commands.ApproveGroup():
                return self._approve(command)
            case commands.StartRollout():
                return self._start(command)
            case commands.PauseRollout():
                return self._pause(command)
            case commands.ResumeRollout():
                return self._resume(command)
            case commands.EndRollout():
                return self._end(command)

    def gives_way(self, decided: Decision) -> tuple[Decision, str]:
        """End the active rollout where a command makes another version everybody's; in words."""
        rollout = self._state.rollouts.active
        pushed = [
            entry.body.version
            for entry in decided.entries
            if isinstance(entry.body, ModelDesired) and entry.body.of_all
        ]
        if rollout is None or not pushed:
            return Decision(), ""
        reason = f"the operator made model {pushed[0]} that of every device."
        ended = entries.RolloutAborted(rollout=rollout.number, reason=reason)
        return record(ended, actor=OPERATOR), f"; rollout {rollout.number} is ended"

    def due(self, now_ns: int) -> Decision:
        """Decide what time, or what came since, makes of the active rollout."""
        rollout = self._state.rollouts.active
        learned = self._of_learned(rollout)
        if learned.entries or rollout is None:
            return learned
        verdict = self._judge(rollout)
        if verdict is not None and verdict.outcome == "fail":
            return self._failed(rollout, verdict)
        if rollout.stage == "paused" or now_ns < (rollout.begins_ns or 0):
            return Decision()
        if rollout.phase is None:
            return self._open(rollout)
        if rollout.stage == "soaking":
            return self._soaked(rollout, rollout.phase, now_ns)
        if rollout.phase.out_ns is None:
            return Decision()  # a release key has yet to sign
        away = unreached(self._live, rollout, now_ns)
        return away if away.entries else self._closing(rollout, rollout.phase, now_ns)

    def _closing(self, rollout: Rollout, phase: Phase, now_ns: int) -> Decision:
        """Decide about a phase in which everybody has reported, or that has lasted too long."""
        again = retries(self._state, rollout, now_ns)
        deadline_ns = round(rollout.planned.plan.deadline_hours * _HOUR_NS)
        late = now_ns - phase.since_ns >= deadline_ns
        if again.entries or (phase.waiting and not late):
            return again
        verdict = self._verdict(rollout, phase)
        if verdict.outcome == "fail":
            return self._failed(rollout, verdict)
        measured = record(_measured(rollout, phase, verdict, deadline=bool(phase.waiting)))
        if verdict.outcome == "pass":
            return measured
        if rollout.planned.plan.on_unsure == "back":
            return measured + self._back(rollout, verdict.reason)
        return measured + record(
            entries.RolloutPaused(rollout=rollout.number, reason=verdict.reason)
        )

    def _soaked(self, rollout: Rollout, phase: Phase, now_ns: int) -> Decision:
        """Go on after a phase that passed; only what runs has to soak."""
        assert phase.passed_ns is not None
        soak_ns = round(rollout.planned.plan.soak_seconds * NANOSECONDS)
        if phase.mode == "run" and now_ns - phase.passed_ns < soak_ns:
            return retries(self._state, rollout, now_ns)
        if opening.is_last(rollout):
            return record(entries.RolloutFinished(rollout=rollout.number))
        return self._open(rollout)

    def _open(self, rollout: Rollout) -> Decision:
        """Open the next phase, if somebody is there and it may go."""
        asks = rollout.planned.plan.approve == "operator"
        compared = rollout.phase is not None and rollout.phase.mode == "shadow"
        if asks and not compared and max(rollout.approved, default=0) <= _open_group(rollout):
            return Decision()  # who would be in it need not be found out every time
        opened = opening.next_phase(self._state, self._live, rollout)
        if opened is None or (asks and opened.group not in rollout.approved):
            return Decision()
        desired = ModelDesired(
            version=rollout.planned.version,
            reason=f"group {opened.group} of rollout {rollout.number}",
            group=opening.offer(rollout, opened),
        )
        return record(opened) + record(desired)

    def _judge(self, rollout: Rollout) -> RolloutVerdict | None:
        """Return what the gates say, where anything that counts came since they were asked last."""
        phase = rollout.phase
        if phase is None or not rollout.evidence.entries:
            return None
        counted = (len(rollout.evidence.entries), len(rollout.pardons))
        seen = (rollout.number, rollout.stage, phase.group, phase.mode, *counted)
        if self._judged == seen:
            return None
        self._judged = seen
        return self._verdict(rollout, phase)

    def _verdict(self, rollout: Rollout, phase: Phase) -> RolloutVerdict:
        scope = rollout.scope(phase.group, phase.mode)
        return judge(rollout.planned.plan.gates, rollout.evidence, scope)

    def _failed(self, rollout: Rollout, verdict: RolloutVerdict) -> Decision:
        """Go back everywhere, or leave it to a person."""
        assert rollout.phase is not None
        number, plan = rollout.number, rollout.planned.plan
        goes_back = plan.on_fail == "back" and not verdict.rests_on_one
        if rollout.stage == "paused" and not goes_back:
            return Decision()
        measured = record(_measured(rollout, rollout.phase, verdict))
        if goes_back:
            return measured + self._back(rollout, verdict.reason)
        alone = " It rests on one device." if verdict.rests_on_one else ""
        return measured + record(
            entries.RolloutPaused(rollout=number, reason=verdict.reason + alone)
        )

    def _back(self, rollout: Rollout, reason: str) -> Decision:
        former = rollout.planned.former
        ended = record(entries.RolloutRolledBack(rollout=rollout.number, to=former, reason=reason))
        if former is None:
            return ended
        text = f"rollout {rollout.number} goes back"
        return ended + record(ModelDesired(version=former, reason=text, returns=True, spares=True))

    def _of_learned(self, rollout: Rollout | None) -> Decision:
        """Let out what the fleet has learned, once no other rollout is in the way."""
        version, rules = self._state.rollouts.learned, self._rules
        if version is None or not rules.models.automatic or self.waiting() is not None:
            return Decision()
        model = self._state.models.by_version[version]
        adapts = _adapts(model)
        large = rules.rollouts.is_large(len(self._state.devices.admitted))
        if rollout is None and not large and adapts is None:
            reason = f"solved from {count_of(model.solved.contributions, 'contribution')}"
            return record(ModelDesired(version=version, reason=reason))
        plan = rules.rollouts.plan if adapts is None else rules.adapter.plan
        body = self._planned(version, plan, automatic=True)
        begun = record(entries.RolloutStarted(rollout=body.rollout))
        return record(body) + self._superseded(body.rollout) + begun

    def waiting(self) -> int | None:
        """Return the version that goes out by itself once the open rollout ends."""
        rollout, version = self._state.rollouts.active, self._state.rollouts.learned
        if rollout is None or not self._rules.models.automatic:
            return None
        return None if rollout.planned.automatic and rollout.stage == "paused" else version

    def _superseded(self, by: int) -> Decision:
        rollout = self._state.rollouts.active
        if rollout is None:
            return Decision()
        reason = f"rollout {by} takes its place."
        return record(entries.RolloutAborted(rollout=rollout.number, reason=reason, by=by))

    def _planned(
        self, version: int, plan: RolloutPlan, *, automatic: bool
    ) -> entries.RolloutPlanned:
        models, number = self._state.models, self._state.rollouts.next_number
        former = models.desired.version if models.desired is not None else None
        known = models.by_version[former].made.class_names if former is not None else ()
        adapts = _adapts(models.by_version[version])
        return entries.RolloutPlanned(
            rollout=number,
            version=version,
            former=former,
            classes=len(known),
            devices=sum(1 for _ in opening.concerned(self._state, plan)),
            salt=f"rollout-{number}",
            plan=plan,
            automatic=automatic,
            judges=None if adapts is None else adapts.judges,
        )

    def _plan(self, command: commands.PlanRollout) -> tuple[Decision, str]:
        state, version, plan = self._state, command.version, command.plan
        model = state.models.by_version.get(version)
        if model is None or model.exported is None:
            raise CommandError(
                f"version: {version} is not a model; `fleetledger model list` shows the versions"
            )
        body = self._planned(version, plan, automatic=False)
        if body.former == version:
            raise CommandError(f"version: every device is to run {version} already")
        if plan.approve == "release-key" and state.trust.root is None:
            raise CommandError(
                "approve: a release key cannot let groups go in a fleet without a root; see "
                "`fleetledger trust init`, or let the operator approve"
            )
        decision = record(body, actor=OPERATOR)
        text = f"rollout {body.rollout} is planned: model {version}"
        if not command.start:
            return decision, f"{text}; `fleetledger rollout start {body.rollout}` begins it"
        begun = record(entries.RolloutStarted(rollout=body.rollout), actor=OPERATOR)
        instead = self._superseded(body.rollout)
        return decision + instead + begun, f"{text}; it begins{self._instead(instead)}"

    def _instead(self, superseded: Decision) -> str:
        active = self._state.rollouts.active
        return f" in place of rollout {active.number}" if superseded.entries and active else ""

    def _start(self, command: commands.StartRollout) -> tuple[Decision, str]:
        rollout = self._known(command.rollout)
        if rollout.stage not in NOT_BEGUN:
            raise CommandError(f"rollout: {rollout.number} is {words(rollout)}")
        models, former = self._state.models, rollout.planned.former
        if former != (models.desired.version if models.desired is not None else None):
            raise CommandError(
                f"rollout: {rollout.number} was planned when every device was to run "
                f"{former or 'nothing'}; plan it anew"
            )
        body = entries.RolloutStarted(rollout=rollout.number, begins_ns=command.begins_ns)
        instead = self._superseded(rollout.number)
        text = f"rollout {rollout.number} begins{self._instead(instead)}"
        return instead + record(body, actor=OPERATOR), text

    def _approve(self, command: commands.ApproveGroup) -> tuple[Decision, str]:
        rollout = self._open_one(command.rollout)
        plan = rollout.planned.plan
        if plan.approve != "operator":
            how = "nobody has to" if plan.approve is None else "a release key does"
            raise CommandError(f"approve: of rollout {rollout.number} {how}")
        group = command.group or self._group_to_approve(rollout)
        if group > len(plan.groups):
            raise CommandError(
                f"group: rollout {rollout.number} has {count_of(len(plan.groups), 'group')}, and "
                f"all of them "
                "are approved"
                if command.group is None
                else f"group: rollout {rollout.number} has {count_of(len(plan.groups), 'group')}"
            )
        text = f"group {group} of rollout {rollout.number} may go"
        if group in rollout.approved:
            return Decision(), text
        return record(
            entries.RolloutApproved(rollout=rollout.number, group=group), actor=OPERATOR
        ), text

    def _group_to_approve(self, rollout: Rollout) -> int:
        """Return the group that opens next, unless it may go already; then the one after those."""
        opens = opening.next_phase(self._state, self._live, rollout)
        if opens is not None and opens.group not in rollout.approved:
            return opens.group
        return max(rollout.approved.keys() | {_open_group(rollout)}) + 1

    def _pause(self, command: commands.PauseRollout) -> tuple[Decision, str]:
        rollout = self._active(command.rollout)
        if rollout.stage == "paused":
            raise CommandError(f"rollout: {rollout.number} is paused already")
        reason = command.reason or "the operator wants it so."
        body = entries.RolloutPaused(rollout=rollout.number, reason=reason)
        return record(body, actor=OPERATOR), f"rollout {rollout.number} is paused"

    def _resume(self, command: commands.ResumeRollout) -> tuple[Decision, str]:
        rollout = self._active(command.rollout)
        if rollout.stage != "paused":
            raise CommandError(f"rollout: {rollout.number} is not paused")
        body = entries.RolloutResumed(rollout=rollout.number, reason=command.reason)
        return record(body, actor=OPERATOR), f"rollout {rollout.number} goes on"

    def _end(self, command: commands.EndRollout) -> tuple[Decision, str]:
        rollout, number = self._open_one(command.rollout), command.rollout
        reason = command.reason or "the operator wants it so."
        if not command.back or rollout.stage not in BEGUN:
            body = entries.RolloutAborted(rollout=number, reason=reason)
            kept = "; devices keep what they run" if rollout.stage in BEGUN else ""
            return record(body, actor=OPERATOR), f"rollout {number} is ended{kept}"
        former = rollout.planned.former
        if former is None:
            raise CommandError(
                f"rollout: there was no model before {rollout.planned.version} to go back to; "
                f"`fleetledger rollout abort {number}` ends it"
            )
        text = f"rollout {number} is ended; every device goes back to model {former}"
        return _by_operator(self._back(rollout, reason)), text

    def _known(self, number: int) -> Rollout:
        rollout = self._state.rollouts.by_number.get(number)
        if rollout is None:
            known = some(sorted(self._state.rollouts.by_number)) or "none"
            raise CommandError(f"rollout: {number} is none of this fleet; there are {known}")
        return rollout

    def _open_one(self, number: int) -> Rollout:
        rollout = self._known(number)
        if rollout.stage not in OPEN:
            raise CommandError(f"rollout: {number} is {words(rollout)}")
        return rollout

    def _active(self, number: int) -> Rollout:
        rollout = self._open_one(number)
        if rollout.stage not in BEGUN:
            raise CommandError(
                f"rollout: {number} has not begun; `fleetledger rollout start {number}` begins it"
            )
        return rollout


def _adapts(model: ModelVersion) -> Adapts | None:
    return None if model.lineage is None else model.lineage.adapts


def _open_group(rollout: Rollout) -> int:
    return rollout.phase.group if rollout.phase is not None else 0


def words(rollout: Rollout) -> str:
    """Return how far a rollout has come."""
    return rollout.stage.replace("_", " ")


def _measured(
    rollout: Rollout, phase: Phase, verdict: RolloutVerdict, *, deadline: bool = False
) -> entries.RolloutMeasured:
    return entries.RolloutMeasured(
        rollout=rollout.number,
        group=phase.group,
        mode=phase.mode,
        outcome=verdict.outcome,
        members=len(rollout.members),
        gates=verdict.gates,
        entries=tuple(rollout.evidence.entries),
        deadline=deadline,
        reason=verdict.reason,
    )


def _by_operator(decision: Decision) -> Decision:
    entries = tuple(replace(entry, actor=OPERATOR) for entry in decision.entries)
    return Decision(entries, decision.requests)
