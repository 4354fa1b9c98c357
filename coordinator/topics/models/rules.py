"""Models: when one is solved, which one devices are to run, and what devices say of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

from fleetledger.coordinator.core import work
from fleetledger.coordinator.core.decision import Decision, ask, record, record_for, together
from fleetledger.coordinator.core.entry import OPERATOR, EntryBody
from fleetledger.coordinator.core.live import NANOSECONDS, Live
from fleetledger.coordinator.core.phrases import count_of, some
from fleetledger.coordinator.core.requests import TellOperator
from fleetledger.coordinator.core.rules import Rules
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.topics.contributions.bounds import Bounds
from fleetledger.coordinator.topics.contributions.entries import (
    ContributionsSetAside,
    JudgedPart,
    PartBounds,
)
from fleetledger.coordinator.topics.devices.choice import DeviceChoice, chosen
from fleetledger.coordinator.topics.devices.entries import MAX_NAMED
from fleetledger.coordinator.topics.models import commands, entries
from fleetledger.coordinator.topics.models.kinds import rows_digest
from fleetledger.coordinator.topics.models.stack import earlier
from fleetledger.coordinator.topics.models.state import ModelVersion
from fleetledger.schemas.models import MAX_LACKING, ModelStatus
from fleetledger.schemas.presence import Birth
from fleetledger.schemas.reports import Evaluation
from fleetledger.schemas.values import ClassName, DeviceId, Digest

_TAKEN_BACK = "taken back by the operator"
_HELD = (
    "new models wait for `fleetledger model push VERSION`; `fleetledger model hold --release` lets "
    "them go out by themselves again"
)


class Outlet(Protocol):
    """What this topic asks of the one after it: whether what is desired goes out at once."""

    def told(self, version: int, devices: tuple[DeviceId, ...] | None) -> str:
        """Return what is told of a push that waits, empty where nothing waits.

        Raises `CommandError` where it could not go out to so many devices.
        """


class Models:
    """Decides what is solved and what is desired."""

    def __init__(self, rules: Rules, state: State, live: Live, outlet: Outlet) -> None:
        self._outlet = outlet
        self._rules = rules.models
        self._rollouts = rules.rollouts
        self._bound_rules = rules.bounds
        self._inspects = rules.intake.quarantine == "ask"
        self._bounds = Bounds(rules.bounds, state)
        self._state = state
        self._live = live
        self._weighed_size: int | None = None
        self._waits = False

    def carry_out(self, command: commands.ModelCommand) -> tuple[Decision, str]:
        """Return what a command decides and a sentence for the operator."""
        match command:
            case commands.ImportModel(model=model):
                return self.import_model(model)
            case commands.PushModel(version=version):
                devices = None if command.is_open else self._chosen(command)
                whom = ", ".join(devices) if devices else "all devices"
                decision = self.push(version, devices)
                waits = self._outlet.told(version, devices) + self._told_of_pins(devices)
                return decision, f"model {version} goes to {whom}{waits}"
            case commands.PinDevices():
                return self.pin(command)
            case commands.HoldModels(held=held):
                return self.hold(held), _HELD if held else "new models go out again"
            case commands.GoBack():
                back, version, text = self.back(command)
                return back, text + self._outlet.told(version, None)

    def due(self, now_ns: int) -> Decision:
        """Ask for the export of a solved head, or for a new head if it is time for one."""
        packing = self.pack()
        if self._live.making_model:
            return packing
        newest, failed = self._state.models.newest, self._state.models.learning_failed
        if newest is not None and newest.exported is None and failed is None:
            assert newest.lineage is not None  # it was learned
            self._live.making_model = True
            return ask(
                work.ExportHead(
                    newest.solved,
                    newest.solved_index,
                    newest.solved_ns,
                    newest.lineage,
                    self._state.models.logit_scale
                    if newest.lineage == self._state.lineages.current
                    else None,
                    self._state.lineages.variants
                    if newest.lineage == self._state.lineages.current
                    else None,
                )
            )
        if self._live.last_model_ns is not None and not self._due(now_ns):
            return Decision()
        weighed = self._bounds.due()
        if weighed.entries:
            return weighed  # what counts is decided before it is summed
        if not self._waiting() or not self._due(now_ns):
            return Decision()
        self._live.making_model, self._live.solve_again = True, False
        self._live.last_model_ns = now_ns
        return ask(self._recipe())

    def import_model(self, model: entries.ImportedFiles) -> tuple[Decision, str]:
        """Make a model of the operator's own a version; nothing is desired by it."""
        version = self._state.models.next_version
        text = (
            f"{model.name} is model {version}; it goes nowhere before `fleetledger model push "
            f"{version}`"
        )
        return record(entries.ModelImported(version=version, **dict(model)), actor=OPERATOR), text

    def after(self, body: EntryBody) -> Decision:
        """Ask for what follows an entry at once: an imported model's manifest."""
        return self.pack() if isinstance(body, entries.ModelImported) else Decision()

    def pack(self) -> Decision:
        """Ask for the manifest of an imported model that has none."""
        waiting = self._state.models.unpacked
        if waiting is None or self._live.making_model:
            return Decision()
        assert waiting.imported is not None
        self._live.making_model = True
        imported, index, time_ns = waiting.imported, waiting.solved_index, waiting.solved_ns
        return ask(work.PackImported(waiting.version, imported, index, time_ns))

    def solved(self, body: entries.ModelSolved) -> Decision:
        """Record a solved head, unless it was recorded or another frozen model leads by now.

        Its export is asked for with the next look.
        """
        self._live.making_model = False
        if body.lineage != self._lineage() or body.version in self._state.models.by_version:
            return Decision()
        return record(
            body.model_copy(update={"descends": self._state.rounds.descending(self._state.size)})
        )

    def judged(self, body: ContributionsSetAside) -> Decision:
        """Record which parts are set aside or count again; a head is solved with the next look."""
        self._live.making_model, self._live.solve_again = False, True
        known = self._state.contributions.counted
        inside = partial(known.is_summed, lineage=body.lineage)
        changed = body.model_copy(
            update={
                "set_aside": _still(body.set_aside, inside),
                "again": _still(body.again, known.set_aside.__contains__),
            }
        )
        if body.lineage != self._lineage() or not (changed.set_aside or changed.again):
            return Decision()
        return record(changed) + ask(*map(TellOperator, changed.sentences))

    def exported(self, body: entries.ModelExported) -> Decision:
        """Record an exported model; make it desired unless models are held."""
        self._live.making_model = False
        model = self._state.models.by_version[body.version]
        if model.exported is not None:
            return Decision()
        decision = record(body)
        if model.imported is not None:
            return decision  # where it goes is for the operator to say
        lacks = self._lacks(model)
        if lacks:
            text = (
                f"model {body.version} does not know {some(lacks)} any more: it goes to no device "
                f"until `fleetledger model push {body.version}`"
            )
            withheld = entries.ModelWithheld(version=body.version, lacks=lacks[:MAX_LACKING])
            return decision + record(withheld) + ask(TellOperator(text))
        is_adapter = model.lineage is not None and model.lineage.adapts is not None
        at_once = self._goes_at_once() and not is_adapter
        if self._rules.automatic and not self._state.models.held and at_once:
            reason = f"solved from {count_of(model.solved.contributions, 'contribution')}"
            decision += record(entries.ModelDesired(version=body.version, reason=reason))
        return decision

    def _lacks(self, model: ModelVersion) -> tuple[ClassName, ...]:
        """Return the classes of what all devices run that a model does not know any more."""
        desired = self._state.models.desired
        runs = None if desired is None else self._state.models.by_version[desired.version]
        if runs is None or runs.lineage is None:
            return ()
        classes = self._state.classes
        known = {classes.resolve(name) for name in model.solved.class_names if classes.knows(name)}
        before = [name for name in runs.solved.class_names if classes.knows(name)]
        return tuple(name for name in before if classes.resolve(name) not in known)

    def _goes_at_once(self) -> bool:
        """Whether a solved model goes to all devices; else the rules of rollouts let it out."""
        state = self._state
        in_groups = self._rollouts.is_large(len(state.devices.admitted))
        return not in_groups and state.rollouts.active is None

    def not_made(self, failed: entries.ModelFailed) -> Decision:
        """Record a failure, so that the same sum is not tried again."""
        self._live.making_model = False
        return record(failed)

    def push(self, version: int, devices: tuple[DeviceId, ...] | None) -> Decision:
        """Make a version desired; raise `CommandError` if it does not exist."""
        self._exported(version)
        body = entries.ModelDesired(version=version, devices=devices, reason="operator")
        return record(body, actor=OPERATOR)

    def pin(self, command: commands.PinDevices) -> tuple[Decision, str]:
        """Pin devices to a version, or end that; devices that go on alike are in one entry."""
        if command.is_open:
            raise CommandError("device: none is named; name devices, or choose some by `--tag`")
        devices = self._chosen(command)
        if command.version is not None:
            self._exported(command.version)
            decision = together(
                record(entries.DevicePinned(devices=named, version=command.version), actor=OPERATOR)
                for named in _lists(devices)
            )
            waits = self._outlet.told(command.version, devices[:1])
            return decision, f"{some(devices)}: pinned to model {command.version}{waits}"
        models = self._state.models
        pinned = [device for device in devices if device in models.pinned]
        if not pinned:
            raise CommandError(f"device: none of {some(devices)} is pinned")
        alike: dict[int | None, list[DeviceId]] = {}
        for device in pinned:
            desired = models.unpinned_desire(device)
            then = None if desired is None else desired.version
            alike.setdefault(then, []).append(device)
        decision = together(
            record(entries.DevicePinned(devices=named, then=goes_on), actor=OPERATOR)
            for goes_on, found in alike.items()
            for named in _lists(found)
        )
        waits = "".join(self._outlet.told(goes_on, ()) for goes_on in alike if goes_on is not None)
        return decision, f"{some(pinned)}: not pinned any more{waits}"

    def _chosen(self, choice: DeviceChoice) -> tuple[DeviceId, ...]:
        return chosen(choice, self._state.devices.tags)

    def _told_of_pins(self, devices: tuple[DeviceId, ...] | None) -> str:
        """Return which devices something that is pushed does not reach, empty for none."""
        pinned = self._state.models.pinned
        kept = [device for device in devices or pinned if device in pinned]
        return f"; {some(kept)} stays as it is pinned" if kept else ""

    def hold(self, held: bool) -> Decision:
        """Stop solved models from going out by themselves, or let them again."""
        return record(entries.ModelsHeld(held=held), actor=OPERATOR)

    def back(self, command: commands.GoBack) -> tuple[Decision, int, str]:
        """Go back to what all devices were to run before, and hold so that it stays.

        Devices with a version of their own keep it, unless the command takes them back too.
        Returns that version and a sentence too; raises `CommandError` where there is none.
        """
        state = self._state
        version = _goes_to(state.models.stack, command)
        body = entries.ModelDesired(
            version=version, reason=_TAKEN_BACK, returns=True, spares=not command.canaries
        )
        kept = "" if command.canaries else self._kept()
        text = (
            f"model {version} is desired of all devices, which were to run "
            f"{state.models.stack[-1]};{kept} new models are held until `fleetledger model hold "
            "--release`"
        )
        return self.hold(held=True) + record(body, actor=OPERATOR), version, text

    def _kept(self) -> str:
        """Return who keeps a version of its own, in words; empty where nobody does."""
        own: dict[int, list[str]] = {}
        for device, desired in self._state.models.desired_by_device.items():
            own.setdefault(desired.version, []).append(device)
        return "".join(
            f" model {version} stays on {some(sorted(devices))};"
            for version, devices in sorted(own.items())
        )

    def fault(self, version: int, manifest: Digest) -> str | None:
        """Say why nothing that is said of a model is recorded; None where it is."""
        model = self._state.models.by_version.get(version)
        if model is None or model.exported is None:
            return f"version: {version} is no model of this fleet; nothing was recorded"
        expected = model.exported.manifest.digest
        if manifest != expected:
            return (
                f"manifest: {manifest.short} is not that of model {version}, {expected.short}; "
                "nothing was recorded"
            )
        return None

    def status(self, device: DeviceId, status: ModelStatus) -> Decision:
        """Record what became of a model on a device, once per change."""
        if status.state in ("fetching", "verified"):
            return Decision()
        return self._became(device, status)

    def running(self, device: DeviceId, birth: Birth) -> Decision:
        """Record the model that a device says it runs, if its own report of it was lost."""
        known = self._state.models.by_version.get(birth.active_version or 0)
        if known is None or known.exported is None or birth.active_manifest is None:
            return Decision()
        if known.exported.manifest.digest != birth.active_manifest:
            return Decision()
        status = ModelStatus(
            version=known.version,
            manifest=birth.active_manifest,
            state="active",
            variant=self._state.models.of(device).variant,
        )
        return self._became(device, status)

    def evaluated(self, device: DeviceId, evaluation: Evaluation) -> Decision:
        """Record how well a model does on a device, once per version."""
        known = self._state.models.of(device)
        measured = (known.evaluated_version, known.evaluated_variant)
        if measured == (evaluation.version, evaluation.variant):
            return Decision()
        model = self._state.models.by_version.get(evaluation.version)
        of_pixels = model is not None and model.of_pixels
        body = entries.DeviceEvaluated(
            evaluation=evaluation, answers="pixels" if of_pixels else "sample"
        )
        return record_for(device, body)

    def _became(self, device: DeviceId, status: ModelStatus) -> Decision:
        known, version, active = self._state.models.of(device), status.version, "active"
        seen = known.model_versions_seen.get(version)
        same_version = known.active_version == version or status.state != active
        says_less = status.state == active and seen == "settled"
        told = self._state.models.desired_for(device)
        offered = told is not None and told.group is not None and told.version == version
        if offered and told is not None:
            # What it said before this offer is no answer to it.
            says_less = says_less and told.action < known.said_index
            same_version = same_version and told.action < known.said_index
        changed = status.state == active and status.variant != known.variant
        if (seen == status.state or says_less) and same_version and not changed:
            return Decision()
        body = entries.DeviceModelStatus(status=status, offered=offered)
        return record_for(device, body)

    def _exported(self, version: int) -> entries.ModelExported:
        model: ModelVersion | None = self._state.models.by_version.get(version)
        if model is None or model.exported is None:
            raise CommandError(
                f"version: {version} is not a model; `fleetledger model list` shows the versions"
            )
        return model.exported

    def next_ns(self, now_ns: int) -> int | None:
        """Return when a model of what is held is made; None where it would be the newest again."""
        if self._live.making_model or not self._waiting():
            return None
        if self._due(now_ns) or self._live.last_model_ns is None:
            return now_ns
        pause = self._rules.pause_seconds(self._state.models.in_a_row)
        return self._live.last_model_ns + round(pause * NANOSECONDS)

    def _waiting(self) -> bool:
        """Whether a model of what is held now would differ; the same until the next entry."""
        if self._weighed_size != self._state.size:
            self._weighed_size, self._waits = self._state.size, self._differs()
        return self._waits

    def _differs(self) -> bool:
        """Whether a model of what is held now would differ from the last one, made or failed."""
        given = self._state.contributions
        if not given.sum.parts:
            return False
        names = given.learned_names()
        models, failed = self._state.models, self._state.models.learning_failed
        goes_on = self._state.lineages.goes_on
        newest = models.newest_of(self._lineage()) if goes_on else models.newest
        if (
            failed is not None
            and failed.ledger_size is not None
            and given.unchanged_since(failed.ledger_size)
            and failed.rows == rows_digest(names)
        ):
            return False
        if newest is None:
            return True
        if newest.solved_index < self._state.lineages.variants_index:
            return True  # the same head, before other variants of the frozen part
        solved = newest.solved
        same = (solved.lineage, solved.class_names) == (self._lineage(), names)
        return not same or not given.unchanged_since(solved.ledger_size)

    def _due(self, now_ns: int) -> bool:
        if self._live.solve_again:
            return True
        if self._closed_since() and self._state.models.learning_failed is None:
            return True
        models, last = self._state.models, self._live.last_model_ns
        if last is None:  # since the start none was begun; the pause goes on from before it
            newest = models.newest
            last = now_ns if newest is None else min(now_ns, newest.solved_ns)
            self._live.last_model_ns = last
        return now_ns - last >= self._rules.pause_seconds(models.in_a_row) * NANOSECONDS

    def _closed_since(self) -> bool:
        """Whether the newest stage was closed after the newest model was solved."""
        stage = self._state.stages.by_number.get(self._state.stages.current or 0)
        if stage is None or stage.closed_index is None:
            return False
        newest = self._state.models.newest
        return newest is None or newest.solved_index < stage.closed_index

    def _recipe(self) -> work.SolveHead:
        state = self._state
        assert state.lineages.backbone is not None
        return work.SolveHead(
            version=state.models.next_version,
            lineage=state.lineages.backbone,
            ledger_size=state.size,
            class_names=state.contributions.learned_names(),
            resolution=state.classes.resolution(),
            judging=self._judging(),
        )

    def _judging(self) -> work.Judging:
        rules, newest = self._bound_rules, self._state.models.newest_of(self._lineage())
        bounds = PartBounds(
            residual=rules.max_residual,
            pull=rules.max_pull,
            move=rules.max_move,
            move_from_devices=rules.move_from_devices,
        )
        since = 0 if newest is None else newest.solved.ledger_size
        return work.Judging(since, bounds, self._inspects)

    def _lineage(self) -> Digest:
        assert self._state.lineages.current is not None
        return self._state.lineages.current.digest


def _still(parts: tuple[JudgedPart, ...], holds: Callable[[int], bool]) -> tuple[JudgedPart, ...]:
    """Return the parts of which something is still where it was when they were judged."""
    found = ((part, tuple(filter(holds, part.indices))) for part in parts)
    return tuple(part.model_copy(update={"indices": left}) for part, left in found if left)


def _lists(devices: Sequence[DeviceId]) -> Iterator[tuple[DeviceId, ...]]:
    """Return devices in lists that an entry, and a release, has room for."""
    for start in range(0, len(devices), MAX_NAMED):
        yield tuple(devices[start : start + MAX_NAMED])


def _goes_to(stack: list[int], command: commands.GoBack) -> int:
    """Return the version to go back to; raise `CommandError` where there is none."""
    below = earlier(stack)
    if not below:
        runs = f"{stack[-1]} is the only one" if stack else "there was none"
        raise CommandError(
            f"model: nothing to go back to: of versions for all devices {runs}; `fleetledger model "
            "push VERSION` makes another one theirs, and ends what single devices try"
        )
    if command.leaving not in (None, stack[-1]):
        raise CommandError(
            f"model: all devices are to run {stack[-1]} by now, not {command.leaving}; look again"
        )
    if command.to in (None, *below):
        return command.to or below[0]
    raise CommandError(
        f"version: {command.to} is none that all devices can go back to; those are "
        f"{some(below)}; `fleetledger model push {command.to}` makes "
        "any version theirs"
    )
