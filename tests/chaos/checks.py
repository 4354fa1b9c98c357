"""What must be true at the end of every run, whatever happened during it.

Each promise is a function from what the run left to sentences about what breaks it. They look at
the ledger and the stores on the disks, not at what the programs say of themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from fleetledger.coordinator.core.saved_state import read_state, write_state
from fleetledger.coordinator.core.state import State, read_entry
from fleetledger.coordinator.core.state_fold import fold
from fleetledger.coordinator.core.work import (
    AverageRound,
    SolveHead,
)
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.entries import Entry
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.ledger.verify import verify
from fleetledger.coordinator.models.model_maker import ModelMaker
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.reports.rollouts.story import RolloutStory
from fleetledger.coordinator.topics.models.entries import ModelSolved
from fleetledger.coordinator.topics.rounds.entries import WeightsAveraged
from fleetledger.device_agent.home.keys import KeyRing
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.slots import ModelSlots
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import FleetledgerError
from fleetledger.schemas.cohorts import is_cohort
from fleetledger.schemas.receipts import ENTRY_OF, Accepted, Receipt
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from tests.chaos.cohort_checks import pruned_of_cohorts, sums_of_members
from tests.chaos.material import FLEET
from tests.chaos.outcome import (
    FleetOutcome,
    Images,
    Places,
    numbers,
    read_outcome,
    replayed,
)
from tests.chaos.rollout_checks import (
    RolloutEnd,
    counted_twice,
    ends_of,
    made_again,
    stories,
    strangers,
)

_TAIL = 7
"""Entries behind the newest state that is kept, in what is checked of kept states."""


@dataclass(frozen=True)
class Undisturbed:
    """What the same fleet ends with when nothing fails."""

    aggregate: Digest
    head: Digest
    class_names: tuple[ClassName, ...]
    stages: Mapping[int, tuple[ClassName, ...]]
    images: Mapping[DeviceId, Images]
    rollouts: Mapping[int, RolloutEnd] = field(default_factory=dict)
    """How each rollout ended, by number."""
    timeless: bool = True
    """Whether the model is the same whenever things happen. What a proxy chooses depends on which
    gradients have come by then."""


@dataclass(frozen=True)
class ChaosRun:
    """A run that is over, and what it is compared with."""

    places: Places
    undisturbed: Undisturbed
    seen: SeenMeanwhile

    @cached_property
    def outcome(self) -> FleetOutcome:
        """What the ledger and the stores say; raises what reading them raises."""
        return read_outcome(self.places)


@dataclass(frozen=True)
class SeenMeanwhile:
    """What was seen of the programs while they ran."""

    live: State | None
    """The state that the coordinator's program had at the end; None if there was no such end."""
    receipts: Sequence[tuple[DeviceId, Receipt]]
    """Every receipt that the coordinator sent."""
    installed_anew: frozenset[DeviceId] = frozenset()
    """Devices that lost their disks. Messages that the earlier installation sent may arrive late,
    and have the same key as one of the new installation, which is then refused and mended."""


class Broken(NamedTuple):
    """A promise, and how it was broken."""

    promise: str
    how: str

    def __str__(self) -> str:
        """Return one sentence."""
        return f"{self.promise}: {self.how}"


Check = Callable[[ChaosRun], Iterator[str]]


def check(places: Places, undisturbed: Undisturbed, seen: SeenMeanwhile) -> list[Broken]:
    """Return every promise that a run broke; none if all were kept.

    Of a run that did not come to its end, what must be true at any time.
    """
    names = PROMISES if seen.live is not None else AT_ANY_TIME
    return broken_promises(ChaosRun(places, undisturbed, seen), names)


def broken_promises(run: ChaosRun, names: Iterable[str]) -> list[Broken]:
    """Return those of the promises called `names` that a run broke."""
    return [Broken(promise, how) for promise in names for how in _looked(PROMISES[promise], run)]


def _looked(look: Check, run: ChaosRun) -> Iterator[str]:
    try:
        yield from look(run)
    except FleetledgerError as error:
        yield str(error)


def undisturbed_end(places: Places) -> Undisturbed:
    """Return what a run in which nothing failed ended with, with its rollouts."""
    outcome = read_outcome(places)
    return replace(learned_end(outcome), rollouts=_rollouts(places, outcome))


def learned_end(outcome: FleetOutcome) -> Undisturbed:
    """Return what the fleet of such a run has learned."""
    model = outcome.model
    assert model is not None, "a run ends with a model"
    solved = model.solved
    images = {name: outcome.images(name) for name in outcome.devices}
    stages = {number: stage.class_names for number, stage in outcome.state.stages.by_number.items()}
    return Undisturbed(
        solved.aggregate,
        solved.head,
        solved.class_names,
        stages,
        images,
        timeless=outcome.state.lineages.with_proxy is None and not _is_asynchronous(outcome.state),
    )


def _rollouts(places: Places, outcome: FleetOutcome) -> Mapping[int, RolloutEnd]:
    with LedgerReader.open_read_only(ledger_path(places.coordinator)) as ledger:
        return ends_of(outcome, ledger)


def _ledger_verifies(run: ChaosRun) -> Iterator[str]:
    home = run.places.coordinator
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        report = verify(ledger, Blobs(ledger, BlobStore(blob_folder(home))))
        if not report.ok:
            yield str(report)
        gone = frozenset(report.pruned) - pruned_of_cohorts(ledger)
        yield from (f"blob {digest} was pruned" for digest in sorted(gone))


def _replay_gives_the_state(run: ChaosRun) -> Iterator[str]:
    with LedgerReader.open_read_only(ledger_path(run.places.coordinator)) as ledger:
        state = replayed(ledger)
    for part in fields(state):
        live, value = getattr(run.seen.live, part.name), getattr(state, part.name)
        if live != value:
            yield f"{part.name} is {live} in the program, {value} by the ledger"


def _kept_states_give_the_state(run: ChaosRun) -> Iterator[str]:
    """Keep the state after half of the entries, and after all but a few; go on from there."""
    with LedgerReader.open_read_only(ledger_path(run.places.coordinator)) as ledger:
        size, state, kept = ledger.size, State(), dict[int, dict[str, bytes]]()
        for stop in (size // 2, max(size - _TAIL, size // 2), size):
            fold(state, ledger.entries(state.size, stop))
            kept[stop] = write_state(state)
        for start in kept:
            again = read_state(kept[start].__getitem__)
            fold(again, ledger.entries(start, size))
            if write_state(again) != kept[size]:
                kept_after = count_of(start, "entry", "entries")
                yield f"kept after {kept_after} it becomes another one by the {size}"


def _commands_are_carried_out_once(run: ChaosRun) -> Iterator[str]:
    stages = {
        number: stage.class_names for number, stage in run.outcome.state.stages.by_number.items()
    }
    if stages != run.undisturbed.stages:
        yield f"stages {stages} were opened, {run.undisturbed.stages} undisturbed"


def _receipts_are_true(run: ChaosRun) -> Iterator[str]:
    with LedgerReader.open_read_only(ledger_path(run.places.coordinator)) as ledger:
        for device, receipt in run.seen.receipts:
            if not isinstance(receipt.answer, Accepted):
                continue
            index = receipt.answer.ledger_index
            entry = ledger.entry(index) if index < ledger.size else None
            if entry is None or not _stands_for(entry, device, receipt):
                found = entry.kind if entry is not None else "nothing"
                yield (
                    f"{device} was told of its {receipt.about} of stage {receipt.key.stage}, part "
                    f"{receipt.key.part}, revision {receipt.revision}, that it is entry {index}: "
                    f"{found}"
                )


def _stands_for(entry: Entry, device: DeviceId, receipt: Receipt) -> bool:
    if entry.device != device or entry.kind != ENTRY_OF.get(receipt.about):
        return False
    body, key = entry.body, receipt.key.model_dump(mode="json")
    match receipt.about:
        case "contribution" | "withdrawal":
            found = body["part" if receipt.about == "contribution" else "withdrawal"]
            return (found["key"], found["revision"]) == (key, receipt.revision)
        case "transition":
            found = body["transition"]
            return {"stage": found["stage"], "part": found["number"]} == key
        case "comparison":
            found = body["comparison"]
            return {"stage": found["rollout"], "part": found["number"]} == key
        case "cohort-join":
            found = body["joining"]
            return {"stage": found["stage"], "part": found["part"]} == key
        case "cohort-reveal":
            found = body["reveal"]
            return {"stage": 1 if found["seeds"] else 2, "part": found["number"]} == key
        case _:
            return bool(body["nothing"]["stage"] == key["stage"])


def _sums_are_of_members(run: ChaosRun) -> Iterator[str]:
    if run.outcome.state.cohorts.by_number:
        yield from sums_of_members(run.places, run.outcome)


def _accepted_is_in_the_sum(run: ChaosRun) -> Iterator[str]:
    state = run.outcome.state
    counted = {(item.device, item.key): item for item in state.contributions.counted.values()}
    for device, records in run.outcome.devices.items():
        for key, part in records.parts.items():
            name = f"{device}, stage {key.stage}, part {key.part}, revision {part.revision}"
            item = counted.get((device, key))
            if key in records.hidden or key in records.ready:
                continue  # what is behind masks is looked at by `masked_sums`
            if part.state == "accepted":
                if item is None:
                    yield f"{name}: accepted, and not in the sum"
                elif item.payload != part.payload:
                    yield f"{name}: {part.payload} was accepted, {item.payload} is in the sum"
            elif part.state == "withdrawn" and item is not None:
                yield f"{name}: withdrawn, and still in the sum"
            elif part.state == "refused":
                yield f"{name}: refused"
        if records.outbox:
            yield f"{device}: no receipt for {count_of(len(records.outbox), 'message')}"
        if records.dead_letters and device not in run.seen.installed_anew:
            yield f"{device}: refused {count_of(records.dead_letters, 'message')}"


def _nothing_counts_twice(run: ChaosRun) -> Iterator[str]:
    state = run.outcome.state
    keys = Counter((item.device, item.key) for item in state.contributions.counted.values())
    for (device, key), times in keys.items():
        if times > 1:
            yield f"{device}, stage {key.stage}, part {key.part} is in the sum {times} times"
    for index, item in state.contributions.counted.items():
        if is_cohort(item.device):
            continue
        part = run.outcome.devices[item.device].parts.get(item.key)
        if part is None or part.state != "accepted":
            known = part.state if part is not None else "unknown there"
            yield (
                f"entry {index}: part {item.key.part} of stage {item.key.stage} of {item.device} "
                f"is in the sum, and {known}"
            )


def _every_image_counts_once(run: ChaosRun) -> Iterator[str]:
    for device, expected in run.undisturbed.images.items():
        found = run.outcome.images(device)
        for digest, name in expected.items():
            if found.get(digest) != name:
                yield f"{device}: image {digest.short} of {name} counts as {found.get(digest)}"
        for digest in found.keys() - expected.keys():
            yield f"{device}: image {digest.short} counts, and should not"
        if run.outcome.state.cohorts.by_number:
            continue  # the ledger has no counts of one device
        samples: Counter[ClassName] = Counter()
        for item in run.outcome.state.contributions.counted.values():
            if item.device == device:
                samples.update(item.samples)
        if dict(samples) != numbers(expected.values()):
            yield (
                f"{device}: {dict(samples)} images by the ledger, "
                f"{numbers(expected.values())} on the device"
            )


def _model_is_the_undisturbed_one(run: ChaosRun) -> Iterator[str]:
    model, expected = run.outcome.model, run.undisturbed
    if model is None:
        yield "there is none"
        return
    # Who was silent and finds too few others waits with its part for another stage.
    waiting = any(records.ready for records in run.outcome.devices.values())
    same = ("aggregate", "head") if expected.timeless and not waiting else ()
    for name in ("class_names", *same):
        if getattr(model.solved, name) != getattr(expected, name):
            found = getattr(model.solved, name)
            yield f"{name}: {found}, undisturbed {getattr(expected, name)}"
    if run.outcome.state.lineages.in_rounds:
        return  # of a network the inputs are the entry of its last mean
    given = run.outcome.state.contributions
    if not given.unchanged_since(model.solved.ledger_size):
        size = count_of(model.solved.ledger_size, "entry", "entries")
        yield f"of {size}; entry {given.sum.changed} changed the sum"


def _model_can_be_made_again(run: ChaosRun) -> Iterator[str]:
    model, state = run.outcome.model, run.outcome.state
    backbone = state.lineages.backbone
    if model is None or backbone is None:
        return
    home, solved = run.places.coordinator, model.solved
    request = SolveHead(
        version=solved.version,
        lineage=backbone,
        ledger_size=solved.ledger_size,
        class_names=solved.class_names,
        resolution=state.classes.resolution(),
    )
    again = ModelMaker(home, BlobStore(blob_folder(home))).solve(request).happening
    if not isinstance(again, ModelSolved):
        yield str(again)
    elif (again.aggregate, again.head) != (solved.aggregate, solved.head):
        yield f"aggregate {again.aggregate}, head {again.head} from the payloads"


def _rollouts_end_alike(run: ChaosRun) -> Iterator[str]:
    ends, expected = _rollouts(run.places, run.outcome), run.undisturbed.rollouts
    for number in sorted(ends.keys() | expected.keys()):
        end, undisturbed = ends.get(number), expected.get(number)
        if end is None or undisturbed is None or not end.is_like(undisturbed):
            yield f"rollout {number}: {end}, undisturbed {undisturbed}"


def _candidates_run_where_they_may(run: ChaosRun) -> Iterator[str]:
    for story in _stories(run):
        yield from strangers(story)


def _comparisons_count_once(run: ChaosRun) -> Iterator[str]:
    for story in _stories(run):
        yield from counted_twice(story, run.seen.installed_anew)


def _verdicts_can_be_made_again(run: ChaosRun) -> Iterator[str]:
    for story in _stories(run):
        yield from made_again(story)


def _stories(run: ChaosRun) -> list[RolloutStory]:
    with LedgerReader.open_read_only(ledger_path(run.places.coordinator)) as ledger:
        return stories(run.outcome.state, ledger)


def _keys_are_those_of_the_ledger(run: ChaosRun) -> Iterator[str]:
    for device, folder in run.places.states.items():
        ring = KeyRing.beside(folder.parent, FLEET, device)
        own = ring.current.verify_key if ring.current is not None else None
        enrolled = run.outcome.state.keys.of(device).key
        if own != enrolled:
            yield f"{device}: has {own}, {enrolled} is enrolled"
        if ring.waiting is not None:
            yield f"{device}: a key still waits"


def _means_can_be_made_again(run: ChaosRun) -> Iterator[str]:
    """Average the answers of every round anew, which the fleets of chaos keep."""
    home = run.places.coordinator
    networks = ModelMaker(home, BlobStore(blob_folder(home))).networks
    with LedgerReader.open_read_only(ledger_path(home)) as ledger:
        state = State()
        for entry in ledger.entries():
            body = read_entry(entry.kind, entry.body)
            if isinstance(body, WeightsAveraged):
                again = networks.average(_average_of(state, body)).happening
                if not isinstance(again, WeightsAveraged):
                    yield str(again)
                elif again.weights != body.weights:
                    yield f"round {body.number}: {again.weights} from the answers"
            state.apply(body, entry.device, entry.time_ns)


def _average_of(state: State, body: WeightsAveraged) -> AverageRound:
    current, rounds = state.rounds.by_number[body.number], state.rounds
    closed = current.closed
    assert closed is not None
    inputs = tuple(
        replace(
            item,
            samples=closed.weights.get(item.index, item.samples),
            staleness=rounds.staleness(item.began, body.number),
        )
        for item in current.answers.values()
        if item.index in closed.counted
    )
    older = {item.began for item in inputs} - {body.number}
    opened = tuple(rounds.by_number[number].opened for number in sorted(older))
    return AverageRound(state.lineages.trained, current.opened, inputs, opened)


def _is_asynchronous(state: State) -> bool:
    """Whether answers count in the order in which they come."""
    return any(one.opened.buffering is not None for one in state.rounds.by_number.values())


def _every_device_runs_the_last_model(run: ChaosRun) -> Iterator[str]:
    for device, folder in run.places.states.items():
        desired = run.outcome.state.models.desired_for(device)
        slot = ModelSlots(folder / "slots").active()
        version = slot.version if slot is not None else None
        if desired is None or version != desired.version:
            yield f"{device}: runs {version}, {desired} is desired"
            continue
        yield from broken_files(device, folder)


def broken_files(device: DeviceId, folder: Path) -> Iterator[str]:
    """Say which files of the active model of a device are missing or torn."""
    slot = ModelSlots(folder / "slots").active()
    blobs = BlobFolder(folder / "blobs")
    for digest in (slot.manifest, *slot.files) if slot is not None else ():
        path = blobs.path(digest)
        if not path.is_file() or Digest.of(path.read_bytes()) != digest:
            yield f"{device}: file {digest.short} of its active model is not whole"


PROMISES: dict[str, Check] = {
    "the ledger verifies": _ledger_verifies,
    "a replay gives the state": _replay_gives_the_state,
    "a state that was kept gives the state": _kept_states_give_the_state,
    "a command is carried out once": _commands_are_carried_out_once,
    "a receipt is true": _receipts_are_true,
    "nothing accepted is lost": _accepted_is_in_the_sum,
    "a cohort's sum is that of its members": _sums_are_of_members,
    "nothing counts twice": _nothing_counts_twice,
    "every image counts once": _every_image_counts_once,
    "the model is that of the undisturbed run": _model_is_the_undisturbed_one,
    "the model can be made again from the ledger": _model_can_be_made_again,
    "every mean can be made again from the ledger": _means_can_be_made_again,
    "every device runs the last model": _every_device_runs_the_last_model,
    "a rollout ends as the undisturbed one": _rollouts_end_alike,
    "a candidate runs where its group was opened": _candidates_run_where_they_may,
    "a comparison counts once": _comparisons_count_once,
    "every verdict can be made again from the ledger": _verdicts_can_be_made_again,
    "a device has the key that is enrolled": _keys_are_those_of_the_ledger,
}
"""Every promise by its name, in the order in which they are looked at."""

AT_ANY_TIME = ("the ledger verifies", "a receipt is true")
"""Promises that hold also while a run is under way."""
