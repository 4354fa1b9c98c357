"""Previews of commands that reach devices, in sentences."""

from __future__ import annotations

from collections import Counter
from shlex import quote

from fleetledger.coordinator.core.phrases import count_of, some
from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.reports.rollouts.lookup import active_rollout, one_rollout
from fleetledger.coordinator.reports.rollouts.rollout_waits import preview_waits
from fleetledger.coordinator.topics.devices.choice import DeviceChoice
from fleetledger.coordinator.topics.devices.views import chosen_in
from fleetledger.coordinator.topics.models import queries as model_queries
from fleetledger.coordinator.topics.rollouts.membership import DeviceStage
from fleetledger.runtime.count_words import agree

EVERYBODY = DeviceChoice()
_RUNS: tuple[DeviceStage, ...] = ("switched", "settled")


def preview_push(
    ledger: LedgerReader,
    choice: DeviceChoice,
    version: int,
    *,
    over_pins: bool = False,
    unsigned: bool = False,
) -> tuple[str, ...]:
    """Return who gets the version, what they leave for it, and what it does not know.

    Devices that are pinned stay, but for `over_pins`. `unsigned` where a release key that is not
    here has yet to sign it. Raises `CommandError` where nobody is meant, or there is no such
    version.
    """
    models = state_of(ledger).models
    known = model_queries.one_version(models, version).made.class_names
    pinned = set() if over_pins else {one for one, pin in models.pins.items() if pin != version}
    running = _running(ledger)
    meant = tuple(running) if choice.is_open else chosen_in(ledger, choice)
    leaving = Counter(running.get(device) for device in meant if device not in pinned)
    same = leaving.pop(version, 0)
    lines = [f"to {model_queries.measured_version(models, version)}"]
    for former, devices in sorted(leaving.items(), key=lambda item: -item[1]):
        text = "no model" if former is None else model_queries.measured_version(models, former)
        lines.append(f"from {text}: {count_of(devices)}{_fetched(ledger, version, former)}")
    if not meant:
        lines.append("nobody is admitted yet; devices that come get it")
    if same:
        lines.append(f"{count_of(same)} {agree(same, 'runs', 'run')} it")
    stay = [device for device in meant if device in pinned]
    if stay:
        lines.append(f"pinned to another, and {agree(len(stay), 'stays', 'stay')}: {some(stay)}")
    learned = {
        name
        for former in leaving
        if former
        for name in model_queries.one_version(models, former).made.class_names
    }
    lost = sorted(learned - set(known))
    if lost:
        lines.append(f"it does not know {some(lost)}, which they know now")
    if meant:
        lines += _waits_for_signature(version) if unsigned else ()
        lines.append(
            "devices that are here switch as soon as they have it, others when they come back; "
            "nothing waits for what they measure"
        )
    if choice.is_open and (begun := active_rollout(state_of(ledger))) is not None:
        lines.append(f"rollout {begun[0]} of model {begun[1]} is open, and ends by this")
    if len(leaving) and len(meant) > 1 and not choice.devices:
        lines.append(_as_rollout(version, choice))
    return tuple(lines)


def preview_back(
    ledger: LedgerReader, to: int | None, *, canaries: bool = False, unsigned: bool = False
) -> tuple[str, ...]:
    """Return what going back to a version would do; raise `CommandError` as `going_back` does.

    `canaries` where devices with a version of their own go back too; `unsigned` as of a push.
    """
    step, stays = model_queries.going_back(ledger, to), "goes back too" if canaries else "stays so"
    leaving, back = (
        model_queries.measured_version(state_of(ledger).models, version)
        for version in (step.leaving, step.to)
    )
    return (
        f"all devices are to run {leaving}",
        *(f"{line}, which {stays}" for line in model_queries.describe_canaries(step.canaries)),
        f"to go back to: {back}; new models are held then",
        *(_waits_for_signature(step.to) if unsigned else ()),
        _as_rollout(step.to),
    )


def _waits_for_signature(version: int) -> tuple[str, ...]:
    return (
        "no device may install it until a release key has signed it: `fleetledger model sign "
        f"{version} --key FILE`",
    )


def _as_rollout(version: int, choice: DeviceChoice = EVERYBODY) -> str:
    tags = "".join(f" --tag {quote(str(tag))}" for tag in choice.tags)
    return (
        "group by group, as long as devices measure that it holds: `fleetledger rollout plan "
        f"{version}{tags}`"
    )


def preview_rollout(
    ledger: LedgerReader, action: str, number: int, now_ns: int, *, unsigned: bool = False
) -> tuple[str, ...]:
    """Return what an action on a rollout would do on how many devices; raise `CommandError`.

    `unsigned` where a release key that is not here has yet to sign each group.
    """
    report = one_rollout(ledger, number, now_ns)
    one, runs = report.rollout, sum(report.counts.get(stage, 0) for stage in _RUNS)
    following = next((group for group in report.groups if group.stage == "ahead"), None)
    match action:
        case "rollout-back":
            former = f"model {one.former}" if one.former else "no model"
            verb = agree(runs, "runs", "run"), agree(runs, "switches", "switch")
            return (f"{count_of(runs)} that {verb[0]} model {one.version} {verb[1]} to {former}.",)
        case "rollout-abort" | "rollout-pause":
            never = len(report.devices) - one.ran
            goes, do = agree(runs, "goes", "go"), agree(never, "does", "do")
            return (
                f"{count_of(runs)} {goes} on with model {one.version}, {never:,} {do} not get it.",
            )
        case "rollout-start" | "rollout-approve" if following is not None:
            group = f"Group {following.number}: {count_of(following.devices)}."
            if action == "rollout-approve":
                return (group,)
            sizes = [group.devices for group in report.groups]
            return (group, preview_waits(report.plan, sizes, now_ns, unsigned=unsigned))
        case _:
            are, run = agree(one.devices, "is", "are"), agree(runs, "runs", "run")
            where = f"{are} in the groups that are open"
            return (f"{count_of(one.devices)} {where}; {runs:,} {run} it.",)


def _fetched(ledger: LedgerReader, version: int, former: int | None) -> str:
    """Return how much each device fetches of a version, beyond the files of a former one."""
    here = {} if former is None else _file_sizes(ledger, former)
    size = sum(size for digest, size in _file_sizes(ledger, version).items() if digest not in here)
    return f", {size / 1e6:,.1f} MB to fetch" if size >= 50_000 else ""


def _file_sizes(ledger: LedgerReader, version: int) -> dict[str, int]:
    """Return the bytes of each file of a version, by digest; none before it is exported."""
    exported = model_queries.one_version(state_of(ledger).models, version).exported
    return {file.digest: file.size for file in exported.files} if exported is not None else {}


def _running(ledger: LedgerReader) -> dict[str, int | None]:
    state = state_of(ledger)
    return {name: state.models.of(name).active_version for name in state.devices.admitted}
