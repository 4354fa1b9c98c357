"""Needs for a person, the most urgent first, each with the command that mends or shows it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from fleetledger.coordinator.core.phrases import count_of, some, span
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.reports import answers
from fleetledger.coordinator.reports.absence import absences
from fleetledger.coordinator.reports.fleet_devices import troubles
from fleetledger.coordinator.reports.rollouts.report import RolloutSummary
from fleetledger.coordinator.topics.clock.views import CALENDAR_TOLERANCE_NS
from fleetledger.coordinator.topics.contributions.views import left_out_in, set_aside_in
from fleetledger.coordinator.topics.devices.views import earlier_in
from fleetledger.coordinator.topics.releases.views import root_entry, waiting
from fleetledger.coordinator.topics.rounds.views import stopped_in
from fleetledger.coordinator.topics.stages.views import reports_in, unseen_in
from fleetledger.runtime.shown_commands import command_at, commands_at
from fleetledger.runtime.times import clock_time
from fleetledger.schemas.envelope import COORDINATOR, PROXY
from fleetledger.schemas.requirements import Requirement, are_of, code_of
from fleetledger.schemas.values import DeviceId

_NUMBERS = re.compile(r"\d[\d.,:]*")
ROOT_WARNING_NS = 14 * 86_400 * 10**9
"""So long before a root expires somebody is told."""


@dataclass(frozen=True)
class KnownFleet:
    """What it is decided by."""

    ledger: LedgerReader
    state: State
    """That the ledger gives."""
    run: answers.CoordinatorRun
    devices: tuple[answers.FleetDevice, ...]
    rollouts: tuple[RolloutSummary, ...]
    """That something is still to come of."""
    time_ns: int
    stage: answers.StageNow | None


def needs(known: KnownFleet) -> tuple[answers.Need, ...]:
    """Return what needs a person: what cannot wait first, and in each half the gravest first."""
    found = [
        *_of_the_coordinator(known),
        *_of_passwords(known),
        *_of_twins(known),
        *_of_replaced(known),
        *_of_rollouts(known),
        *_of_work_that_stands(known),
        *_of_roots(known),
        *_of_silence(known),
        *absences(known.run, known.devices, known.stage, known.time_ns),
        *_of_models_on_devices(known),
        *_of_problems(known),
        *_of_distributions(known),
        *_of_wire(known),
        *_of_programs(known),
        *_of_models_that_wait(known),
        *_of_parts_set_aside(known),
        *_of_shares(known),
        *_of_unseen(known),
        *_of_reports(known),
    ]
    return tuple(sorted(found, key=lambda need: need.urgency != "now"))


def at_home(need: answers.Need, home: Path) -> answers.Need:
    """Return a need whose commands find the coordinator that lives in `home`."""
    command = None if need.command is None else command_at(need.command, home)
    sentence = commands_at(need.sentence, home)
    return need.model_copy(update={"command": command, "sentence": sentence})


def _of_the_coordinator(known: KnownFleet) -> Iterator[answers.Need]:
    ledger = known.ledger
    last_ns = ledger.entry(ledger.size - 1).time_ns if ledger.size else 0
    ahead = last_ns - known.time_ns
    if ahead > CALENDAR_TOLERANCE_NS:
        yield answers.Need(
            key="clock",
            urgency="now",
            sentence=f"Entries of the ledger are {span(ahead)} ahead of this machine's calendar; "
            "if the calendar is right, say so.",
            command="fleetledger coordinator correct-clock",
        )
    run = known.run
    if not run.running:
        yield answers.Need(
            key="coordinator:not-running",
            urgency="now",
            sentence=_not_running(run, known.time_ns),
            command="fleetledger coordinator serve",
        )
        return
    for problem in run.problems:
        how = "cannot do its work" if problem.hinders else f"has a problem with {problem.about}"
        yield answers.Need(
            key=f"coordinator:{problem.about}:{_NUMBERS.sub('', problem.text)}",
            urgency="now" if problem.hinders else "today",
            sentence=f"The coordinator {how}: {problem.text}.",
            since=problem.since,
        )
    if not run.connected:
        why = f": {run.connection}" if run.connection else ""
        yield answers.Need(
            key="coordinator:broker",
            urgency="now",
            sentence=f"The coordinator is not connected to the broker{why}.",
            since=run.disconnected_since,
        )


def _not_running(run: answers.CoordinatorRun, now_ns: int) -> str:
    if run.last_written is None:
        return "No coordinator runs: nothing is taken in, and nothing goes out."
    if run.process is not None:
        return (
            f"The coordinator (process {run.process}) stands still since "
            f"{clock_time(run.last_written, now_ns)}: it was stopped, or its disk does not answer, "
            "and nothing is taken in. Look at its disk and at `ps -o stat,wchan -p "
            f"{run.process}`; `kill -CONT {run.process}` wakes one that was stopped, else end it."
        )
    how = "was stopped" if run.stopped_in_order else "has not been heard of"
    when = "at" if run.stopped_in_order else "since"
    return (
        f"No coordinator runs: it {how} {when} {clock_time(run.last_written, now_ns)}. Nothing is "
        "taken in, and nothing goes out."
    )


def _of_passwords(known: KnownFleet) -> Iterator[answers.Need]:
    there = {device.name for device in known.devices if device.state != "revoked"}
    for seen in known.run.misused:
        own = seen.user in there
        if not own and seen.user not in {COORDINATOR, PROXY}:
            continue  # who was shut out or retired meanwhile
        seen_at = f"{seen.sentence}, the last time at {clock_time(seen.last_ns, known.time_ns)}."
        if own:
            yield answers.Need(
                key=f"password:{seen.user}",
                urgency="now",
                sentence=f"{seen_at} Somebody else may have its password.",
                devices=(seen.user,),
                command=f"fleetledger coordinator revoke {seen.user}",
            )
        else:
            yield answers.Need(
                key=f"password:{seen.user}",
                urgency="now",
                sentence=f"{seen_at} Somebody else may have its password: delete it in the folder "
                "`passwords` of `broker-config`, and run that again.",
            )


def _of_twins(known: KnownFleet) -> Iterator[answers.Need]:
    for name, found in known.state.devices.doubled.items():
        one, other = found.runs
        yield answers.Need(
            key=f"twins:{name}",
            urgency="now",
            sentence=f"Two installations run as {name}, {one} and {other}: nothing "
            "more of it is taken in until you say which one goes on (`agent status` on each says "
            "which it is).",
            devices=(name,),
            index=found.index,
            command=f"fleetledger coordinator settle {name} --installation ID",
        )


def _of_replaced(known: KnownFleet) -> Iterator[answers.Need]:
    for row in earlier_in(known.ledger):
        if row.device in known.state.devices.doubled:
            continue
        yield answers.Need(
            key=f"replaced:{row.device}",
            urgency="now",
            sentence=f"{row.device} runs as another installation than the one that gave "
            f"{count_of(row.parts, 'part')} of {count_of(row.samples, 'sample')}. These stay, and "
            "what it has to give waits, until you say whether they stay beside it (`keep`: other "
            "images) or leave (`drop`: the same images, counted again).",
            devices=(row.device,),
            index=row.index,
            command=f"fleetledger device replaced {row.device} keep",
        )


def _of_rollouts(known: KnownFleet) -> Iterator[answers.Need]:
    for one in known.rollouts:
        show, index = f"fleetledger rollout show {one.number}", one.newest_index
        if one.stage == "paused":
            runs = f"Model {one.version} has run on {one.ran:,} of {count_of(one.devices)}"
            back = "" if one.former is None else f"; going back leads to model {one.former}"
            yield answers.Need(
                key=f"rollout:{one.number}:paused:{index}",
                urgency="now",
                sentence=one.sentence,
                more=f"{one.evidence} {runs} of the groups that are open{back}.".strip(),
                index=index,
                command=show,
            )
        elif one.waits_for == "approval":
            approve = f"fleetledger rollout approve {one.number}"
            yield answers.Need(
                key=f"rollout:{one.number}:approve:{one.group}",
                urgency="now",
                sentence=one.sentence,
                index=index,
                command=approve,
            )
        elif one.waits_for == "start":
            start = f"fleetledger rollout start {one.number}"
            yield answers.Need(
                key=f"rollout:{one.number}:start",
                urgency="today",
                sentence=one.sentence,
                index=index,
                command=start,
            )


def _of_work_that_stands(known: KnownFleet) -> Iterator[answers.Need]:
    stopped = stopped_in(known.ledger)
    if stopped is not None:
        index, reason = stopped
        yield answers.Need(
            key=f"rounds:{index}",
            urgency="now",
            sentence=f"Rounds have stopped: {reason}",
            index=index,
            command="fleetledger coordinator resume-rounds",
        )
    failed = known.state.models.failed
    if failed is not None:
        index, reason = failed.index, failed.reason
        yield answers.Need(
            key=f"model-failed:{index}",
            urgency="now",
            sentence=f"No model could be made: {reason}",
            index=index,
            command=f"fleetledger ledger show {index}",
        )
    for push in waiting(known.ledger):
        whom = "all devices" if push.devices is None else some(push.devices)
        sign = f"fleetledger model sign {push.version} --key FILE"
        if push.rollout is not None:
            whom = f"group {push.group} of rollout {push.rollout}"
            sign = f"fleetledger rollout approve {push.rollout} --key FILE"
        yield answers.Need(
            key=f"release:{push.index}",
            urgency="now",
            sentence=f"Model {push.version} waits for a release before {whom} may install it.",
            devices=push.devices or (),
            index=push.index,
            command=sign,
        )


def _of_roots(known: KnownFleet) -> Iterator[answers.Need]:
    root = root_entry(known.ledger)
    index, expires = (None, None) if root is None else (root[0], root[1].document.expires_ns)
    if expires is None:
        return
    left = expires - known.time_ns
    if left > ROOT_WARNING_NS:
        return
    expired = left <= 0
    how = "expired: nothing is installed by it any more" if expired else "expires soon"
    yield answers.Need(
        key=f"root:{expired}",
        urgency="now" if expired else "today",
        sentence=f"The fleet's root {how} ({clock_time(expires, known.time_ns)}).",
        index=index,
        command="fleetledger trust rotate --expire-days DAYS --sign-with FILE",
    )


def _of_silence(known: KnownFleet) -> Iterator[answers.Need]:
    silent = [
        item
        for item in known.devices
        if item.silent_since is not None and item.state not in {"away", "never seen"}
    ]
    if silent:
        first = min(item.silent_since for item in silent if item.silent_since is not None)
        yield answers.Need(
            key="silent",
            urgency="now",
            sentence=f"Nothing that can be believed came of {some(d.name for d in silent)}.",
            since=first,
            devices=tuple(item.name for item in silent),
            command="fleetledger agent status",
        )


def _of_models_on_devices(known: KnownFleet) -> Iterator[answers.Need]:
    failed: defaultdict[tuple[int | None, str], list[answers.FleetDevice]] = defaultdict(list)
    for item in known.devices:
        if item.model_state in {"failed", "rolled_back"} and item.state != "revoked":
            failed[item.model_version, item.model_state].append(item)
    for (version, state), items in failed.items():
        said = next((f": {item.model_reason}" for item in items if item.model_reason), "")
        what = "failed" if state == "failed" else "was rolled back"
        index = items[0].model_index
        yield answers.Need(
            key=f"model:{version}:{state}",
            urgency="today",
            sentence=f"Model {version} {what} on {some(item.name for item in items)}{said}.",
            devices=tuple(item.name for item in items),
            index=index,
            command=f"fleetledger ledger show {index}",
        )


def _of_problems(known: KnownFleet) -> Iterator[answers.Need]:
    told: defaultdict[str, list[tuple[str, answers.Trouble]]] = defaultdict(list)
    without = {name for need in _of_distributions(known) for name in need.devices}
    for item in known.devices:
        for trouble in item.problems if item.state != "revoked" else ():
            if trouble.about == "distribution" and item.name in without:
                continue  # it is said of all of them at once
            told[trouble.about].append((item.name, trouble))
    state = known.state.devices
    strangers = state.problems.keys() - state.admitted.keys() - state.retired.keys()
    for sender in sorted(strangers):  # that are no devices, such as the proxy
        for trouble in troubles(state, sender):
            told[trouble.about].append((sender, trouble))
    for about, items in told.items():
        names = tuple(dict.fromkeys(name for name, _ in items))
        index = next((trouble.index for _, trouble in items if trouble.index is not None), None)
        others = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        first = items[0][1]
        yield answers.Need(
            key=f"problem:{about}",
            urgency="today",
            sentence=f"{items[0][0]}{others} has a problem with {about}: {first.text}",
            since=min((one.since for _, one in items if one.since is not None), default=None),
            devices=names,
            index=index,
            command="fleetledger agent doctor"
            if index is None
            else f"fleetledger ledger show {index}",
        )


def _of_wire(known: KnownFleet) -> Iterator[answers.Need]:
    """Yield one for each range of versions that has none in common with the coordinator's."""
    others = defaultdict[tuple[str, str, str], list[str]](list)
    for item in known.devices:
        if item.state in {"too old", "too new"}:
            others[item.state, str(item.wire), str(item.refused_by)].append(item.name)
    for (state, theirs, ours), names in sorted(others.items()):
        one = len(names) == 1
        yield answers.Need(
            key=f"wire:{state}:{theirs}",
            urgency="now",
            sentence=f"{some(names)} {'is' if one else 'are'} {state}: "
            f"{'it speaks' if one else 'they speak'} {theirs} of the wire, the coordinator {ours}. "
            "Nothing waits for "
            f"{'it' if one else 'them'}.",
            more="Install the coordinator's version of fleetledger there, and restart the agent.",
            devices=tuple(names),
            command="fleetledger device list",
        )


def _of_distributions(known: KnownFleet) -> Iterator[answers.Need]:
    """Yield one for each distribution that devices lack, and one for each with other code there."""
    lineage, admitted = known.state.lineages.current, known.state.devices.admitted
    wanted = defaultdict[tuple[str, str], list[Requirement]](list)
    for each in () if lineage is None else lineage.requires:
        wanted[each.whose, each.feature].append(each)
    for (whose, feature), items in wanted.items():
        lack, other = list[str](), list[str]()
        for device in known.devices:
            able = admitted[DeviceId.known(device.name)].capabilities
            if able is None or device.state == "revoked" or feature in able.features:
                continue
            code = code_of(items[0].distribution)
            (other if any(one.startswith(code) for one in able.features) else lack).append(
                device.name
            )
        for names, one_has, have in (
            (lack, "lacks", "lack"),
            (other, "has other code of", "have other code of"),
        ):
            if not names:
                continue
            one = len(names) == 1
            yield answers.Need(
                key=f"distribution:{feature}:{have}",
                urgency="now",
                sentence=f"{some(names)} {one_has if one else have} {whose}, which "
                f"{are_of(items)}: nothing waits for {'it' if one else 'them'}.",
                more=f"Install it there ({items[0].install}) and restart the agent.",
                devices=tuple(names),
                command="fleetledger device list",
            )


def _of_programs(known: KnownFleet) -> Iterator[answers.Need]:
    """Yield one for each version of the program that is not the coordinator's."""
    own, others = known.run.version, defaultdict[str, list[str]](list)
    for item in known.devices:
        if item.state != "revoked" and item.agent_version not in {None, own}:
            others[str(item.agent_version)].append(item.name)
    for version, names in sorted(others.items()) if own is not None else ():
        runs = "runs" if len(names) == 1 else "run"
        yield answers.Need(
            key=f"program:{version}",
            urgency="today",
            sentence=f"{count_of(len(names))} {runs} fleetledger {version}; the coordinator runs "
            f"{own}.",
            more="Install the coordinator's version there, and restart the agent.",
            devices=tuple(names),
            command="fleetledger device list",
        )


def _of_models_that_wait(known: KnownFleet) -> Iterator[answers.Need]:
    models = known.state.models
    if models.withheld is not None and models.learned not in models.canaries:
        index, lacks = models.withheld.index, models.withheld.lacks
        yield answers.Need(
            key=f"withheld:{models.learned}",
            urgency="now",
            sentence=f"Model {models.learned} does not know {some(lacks)} any more, since "
            "nothing that counts has images of it: it goes to no device until you push it.",
            index=index,
            command=f"fleetledger model push {models.learned}",
        )
    tried = set(models.canaries)
    waits = models.learned
    if models.held_index is not None and waits not in {None, models.desired_of_all, *tried}:
        yield answers.Need(
            key=f"held:{waits}",
            urgency="today",
            sentence=f"Model {waits} is held: it goes to no device until you push it.",
            index=models.held_index,
            command=f"fleetledger model push {waits}",
        )
    for version, names in sorted(models.canaries.items()):
        if version == models.desired_of_all:
            continue
        yield answers.Need(
            key=f"tried:{version}",
            urgency="today",
            sentence=f"Model {version} is tried on {some(names)}: let all devices have it, or go "
            "back.",
            devices=names,
            command=f"fleetledger model push {version}",
        )


def _of_parts_set_aside(known: KnownFleet) -> Iterator[answers.Need]:
    for row in set_aside_in(known.ledger):
        yield answers.Need(
            key=f"set-aside:{row.device}:{row.index}",
            urgency="today",
            sentence=f"{count_of(row.parts, 'contribution')} of {row.device} set aside: {row.why}. "
            f"`fleetledger ledger retract {row.device} --reason TEXT` takes out what it gave.",
            devices=(row.device,),
            index=row.index,
            command=f"fleetledger ledger count-in {row.device}",
        )


def _of_shares(known: KnownFleet) -> Iterator[answers.Need]:
    for row in left_out_in(known.ledger):
        yield answers.Need(
            key=f"left-out:{row.device}",
            urgency="today",
            sentence=f"Something is left out of the sum: {row.text}",
            devices=(row.device,),
            index=row.index,
            command=f"fleetledger ledger show {row.index}",
        )


def _of_unseen(known: KnownFleet) -> Iterator[answers.Need]:
    unseen = unseen_in(known.ledger)
    if unseen is not None:
        yield answers.Need(
            key=f"unseen:{unseen.stage}",
            urgency="today",
            sentence=f"No device gave images of {some(unseen.class_names)}, which stage "
            f"{unseen.stage} asked for: models do not know them until one does.",
            index=unseen.index,
            command="fleetledger class list",
        )


def _of_reports(known: KnownFleet) -> Iterator[answers.Need]:
    """Yield one for all classes that the same devices report."""
    reporters: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for row in reports_in(known.ledger):
        for name in row.class_names:
            reporters[name][row.device] = row.index
    alike: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, found in sorted(reporters.items()):
        alike[tuple(sorted(found))].append(name)
    for devices, names in alike.items():
        yield answers.Need(
            key=f"report:{' '.join(names)}",
            urgency="today",
            sentence=f"{some(devices)} {'has' if len(devices) == 1 else 'have'} images of "
            f"{some(names)}, which no stage has asked for.",
            devices=devices,
            index=max(reporters[names[0]].values()),
            command=f"fleetledger coordinator open-stage {' '.join(map(quote, names))}",
        )
