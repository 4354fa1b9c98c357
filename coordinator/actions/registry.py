"""Every action, by name."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from fleetledger.coordinator.actions.action import (
    DEVICE,
    REASON,
    Action,
    ActionField,
    Values,
    words,
)
from fleetledger.coordinator.core.phrases import count_of
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.live.file import online_now
from fleetledger.coordinator.provisioning.broker_access import close_access, open_access
from fleetledger.coordinator.reports import command_previews
from fleetledger.coordinator.reports.rollouts.plan_words import OnFail, plan_of
from fleetledger.coordinator.reports.rollouts.preview import preview
from fleetledger.coordinator.topics.classes.commands import MergeClasses, RenameClass
from fleetledger.coordinator.topics.contributions.commands import RetractContributions
from fleetledger.coordinator.topics.devices import commands as device_commands
from fleetledger.coordinator.topics.devices.choice import DeviceChoice
from fleetledger.coordinator.topics.devices.views import chosen_in
from fleetledger.coordinator.topics.keys.commands import RevokeKey
from fleetledger.coordinator.topics.models.commands import GoBack, HoldModels, PinDevices, PushModel
from fleetledger.coordinator.topics.rollouts.commands import (
    ApproveGroup,
    EndRollout,
    PauseRollout,
    PlanRollout,
    ResumeRollout,
    StartRollout,
)
from fleetledger.coordinator.topics.rounds.commands import ResumeRounds
from fleetledger.coordinator.topics.stages.commands import CloseStage, OpenStage
from fleetledger.coordinator.trust.release_key import waits_for_key
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.tags import TagName, TagValue
from fleetledger.schemas.values import BootId, ClassName, DeviceId


def _retract(values: Values) -> RetractContributions:
    part = values.get("part")
    return RetractContributions(
        device=DeviceId(values["device"]),
        part=None if part is None else _part(part),
        reason=values["reason"],
    )


def _part(text: str) -> PartKey:
    stage, slash, number = text.partition("/")
    if not (slash and stage.isdecimal() and number.isdecimal()):
        raise CommandError(f"part: {text!r} is not STAGE/PART, such as 1/0")
    return PartKey(stage=int(stage), part=int(number))


def _choice(values: Values) -> DeviceChoice:
    return DeviceChoice.read(words(values.get("devices", "")), words(values.get("tagged", "")))


def _tag_line(values: Values) -> tuple[str, ...]:
    return tuple(word for tagged in words(values.get("tagged", "")) for word in ("--tag", tagged))


def _tag(values: Values) -> device_commands.TagDevices:
    chosen = _choice(values)
    put = (word.partition("=") for word in words(values.get("put", "")))
    return device_commands.TagDevices(
        devices=chosen.devices,
        tags=chosen.tags,
        put={TagName(name): TagValue(value) for name, _, value in put},
        removed=tuple(map(TagName, words(values.get("removed", "")))),
    )


def _tag_words(values: Values) -> tuple[str, ...]:
    gone = (f"{name}-" for name in words(values.get("removed", "")))
    named, put = words(values.get("devices", "")), words(values.get("put", ""))
    return ("device", "tag", *named, *put, *gone, *_tag_line(values))


def _version(values: Values) -> int | None:
    return int(values["version"]) if "version" in values else None


def _pin(values: Values) -> PinDevices:
    chosen = _choice(values)
    return PinDevices(devices=chosen.devices, tags=chosen.tags, version=_version(values))


def _preview_pin(home: Path, ledger: LedgerReader, values: Values) -> tuple[str, ...]:
    chosen, version = _choice(values), _version(values)
    if version is None:
        return (f"{count_of(len(chosen_in(ledger, chosen)))}: the pin ends",)
    unsigned = waits_for_key(home)
    return command_previews.preview_push(ledger, chosen, version, over_pins=True, unsigned=unsigned)


def _pin_words(values: Values) -> tuple[str, ...]:
    version = (values["version"],) if "version" in values else ("--none",)
    return ("device", "pin", *words(values.get("devices", "")), *version, *_tag_line(values))


_NAMED = ActionField("devices", "Devices", "Names, with spaces between them.", False, several=True)
_TAGGED = ActionField(
    "tagged",
    "Only with tags",
    "NAME or NAME=VALUE, with spaces between them; all must fit.",
    required=False,
    several=True,
)
_DEVICES = (
    Action(
        "admit",
        "Admit a device",
        "The device may take part, under this name at the broker.",
        lambda values: device_commands.AdmitDevice(device=DeviceId(values["device"])),
        lambda values: ("coordinator", "admit", values["device"]),
        (DEVICE,),
        then=open_access,
    ),
    Action(
        "revoke",
        "Shut a device out",
        "Its key counts no more and nothing of it is taken in, until it is enrolled anew.",
        lambda values: RevokeKey(device=DeviceId(values["device"]), reason=values["reason"]),
        lambda values: ("coordinator", "revoke", values["device"], "--reason", values["reason"]),
        (DEVICE, REASON),
        then=close_access,
    ),
    Action(
        "retire",
        "Retire a device",
        "Nothing waits for it any more, and nothing of it is taken in until it is admitted again. "
        "What it gave stays.",
        lambda values: device_commands.RetireDevice(
            device=DeviceId(values["device"]), reason=values["reason"]
        ),
        lambda values: ("device", "retire", values["device"], "--reason", values["reason"]),
        (DEVICE, REASON),
        then=close_access,
    ),
    Action(
        "tag",
        "Change tags",
        "Devices are chosen by them from then on; they stand over what owners say.",
        _tag,
        _tag_words,
        (
            _NAMED,
            _TAGGED,
            ActionField("put", "Put", "NAME=VALUE, with spaces between.", False, several=True),
            ActionField("removed", "Take away", "NAMEs, with spaces between.", False, several=True),
        ),
    ),
    Action(
        "pin",
        "Pin to a version",
        "The devices run that version whatever is desired of others, until the pin is ended.",
        _pin,
        _pin_words,
        (
            _NAMED,
            _TAGGED,
            ActionField("version", "Version", "Ends the pin where it is empty.", required=False),
        ),
        _preview_pin,
        asks=True,
    ),
    Action(
        "settle",
        "Say which installation goes on",
        "The other installation under this name is shut out, and keeps its images.",
        lambda values: device_commands.SettleTwins(
            device=DeviceId(values["device"]), installation=BootId(values["installation"])
        ),
        lambda values: (
            *("coordinator", "settle", values["device"]),
            *("--installation", values["installation"]),
        ),
        (
            DEVICE,
            ActionField("installation", "Installation", "`agent status` on the device names it."),
        ),
    ),
    Action(
        "retract",
        "Retract what a device gave",
        "All that it gave, or one part, leaves the sum for good; of rounds, what came is marked.",
        _retract,
        lambda values: (
            *("ledger", "retract", values["device"], "--reason", values["reason"]),
            *(("--part", values["part"]) if "part" in values else ()),
        ),
        (
            DEVICE,
            ActionField(
                "part", "Only this part", "STAGE/PART, or STAGE/ROUND; all if empty.", False
            ),
            ActionField("reason", "Reason", "The device is told, and the ledger keeps it."),
        ),
    ),
)
_STAGES = (
    Action(
        "open-stage",
        "Open a stage",
        "The fleet is asked to learn these classes; an open stage is closed first.",
        lambda values: OpenStage(
            class_names=tuple(map(ClassName, words(values["classes"]))),
            asks="sure" not in values,
        ),
        lambda values: ("coordinator", "open-stage", *words(values["classes"])),
        (ActionField("classes", "Classes", "Names, with spaces between them.", several=True),),
        may_ask=True,
    ),
    Action(
        "close-stage",
        "Close the stage",
        "Nobody is waited for any longer; contributions that come late still count.",
        lambda _values: CloseStage(),
        lambda _values: ("coordinator", "close-stage"),
    ),
    Action(
        "resume-rounds",
        "Try the rounds again",
        "The next round of the open stage is asked for.",
        lambda _values: ResumeRounds(),
        lambda _values: ("coordinator", "resume-rounds"),
    ),
)


def _push(values: Values) -> PushModel:
    chosen = _choice(values)
    return PushModel(version=int(values["version"]), devices=chosen.devices, tags=chosen.tags)


def _preview_push(home: Path, ledger: LedgerReader, values: Values) -> tuple[str, ...]:
    version, unsigned = int(values["version"]), waits_for_key(home)
    return command_previews.preview_push(ledger, _choice(values), version, unsigned=unsigned)


def _push_line(values: Values) -> tuple[str, ...]:
    chosen = words(values.get("devices", ""))
    named = tuple(word for device in chosen for word in ("--device", device))
    return ("model", "push", values["version"], *named, *_tag_line(values))


_MODELS = (
    Action(
        "push-model",
        "Push a model",
        "The version becomes the desired one, of all devices or of those that are named.",
        _push,
        _push_line,
        (
            ActionField("version", "Version"),
            ActionField(
                "devices", "Only on", "Devices; all where it is empty.", False, several=True
            ),
            _TAGGED,
        ),
        _preview_push,
        asks=True,
        as_rollout=True,
    ),
    Action(
        "roll-back",
        "Go back to an earlier model",
        "All devices are to run that version again, and new models are held.",
        lambda values: GoBack(
            to=_version(values),
            canaries="canaries" in values,
        ),
        lambda values: (
            *("model", "rollback"),
            *(("--to", values["version"]) if "version" in values else ("--yes",)),
            *(("--canaries",) if "canaries" in values else ()),
        ),
        (
            ActionField("version", "Version", "The one before where it is empty.", required=False),
            ActionField(
                "canaries", "Devices that try another version go back too", "", False, flag=True
            ),
        ),
        lambda home, ledger, values: command_previews.preview_back(
            ledger,
            _version(values),
            canaries="canaries" in values,
            unsigned=waits_for_key(home),
        ),
        asks=True,
        as_rollout=True,
    ),
    Action(
        "hold-models",
        "Hold new models",
        "Models that are made from now on go to no device until they are pushed.",
        lambda _values: HoldModels(held=True),
        lambda _values: ("model", "hold"),
    ),
    Action(
        "release-models",
        "Let new models go out",
        "Models that are made from now on go to all devices by themselves.",
        lambda _values: HoldModels(held=False),
        lambda _values: ("model", "hold", "--release"),
    ),
)
_ROLLOUT = ActionField("rollout", "Rollout")
_WHY = ActionField("reason", "Reason", "It stays in the ledger, and the page shows it.")


def _why(verb: str, *more: str) -> Callable[[Values], tuple[str, ...]]:
    def line(values: Values) -> tuple[str, ...]:
        return ("rollout", verb, values["rollout"], "--reason", values["reason"], *more)

    return line


def _of_rollout(action: str) -> Callable[[Path, LedgerReader, Values], tuple[str, ...]]:
    return lambda home, ledger, values: command_previews.preview_rollout(
        ledger, action, int(values["rollout"]), time.time_ns(), unsigned=waits_for_key(home)
    )


_PLANNED = ("groups", "soak", "shadow", "approve", "deadline", "hours", "on_fail")
"""Options of `rollout plan` with one value, and `gates` with several."""


def _plan(values: Values) -> PlanRollout:
    said = {name: values[name] for name in _PLANNED if name in values}
    several = {"tags": words(values.get("tagged", "")), "gates": words(values.get("gates", ""))}
    plan = plan_of(None, {**said, **{name: given for name, given in several.items() if given}})
    return PlanRollout(version=int(values["version"]), plan=plan, start="start" in values)


def _plan_line(values: Values) -> tuple[str, ...]:
    said = [(f"--{name.replace('_', '-')}", values[name]) for name in _PLANNED if name in values]
    said += [("--gate", gate) for gate in words(values.get("gates", ""))]
    start = ("--start", "--yes") if "start" in values else ()
    options = (word for pair in said for word in pair)
    return ("rollout", "plan", values["version"], *options, *_tag_line(values), *start)


def _preview_plan(home: Path, ledger: LedgerReader, values: Values) -> tuple[str, ...]:
    asked, now_ns = _plan(values), time.time_ns()
    online, unsigned = online_now(home, now_ns), waits_for_key(home)
    found = preview(ledger, asked.version, asked.plan, online, now_ns, unsigned=unsigned)
    return (*found.sentences, *(f"Careful: {warning}." for warning in found.warnings))


_ROLLOUTS = (
    Action(
        "rollout-plan",
        "Plan a rollout",
        "The version goes to one device first, then to more, and stops by itself where devices "
        "measure that it is worse.",
        _plan,
        _plan_line,
        (
            ActionField("version", "Version"),
            ActionField(
                "groups",
                "Groups",
                "Sizes, each with the groups before it; 1,5%,25%,100% where it is empty.",
                required=False,
            ),
            _TAGGED,
            ActionField(
                "soak",
                "Soak",
                "Time after each group that passed: 90s, 30m; 1h where it is empty.",
                required=False,
            ),
            ActionField(
                "shadow",
                "In the shadow",
                "Groups that measure it before they run it; the first where nothing is chosen.",
                required=False,
                choices=("off", "first", "all"),
            ),
            ActionField(
                "approve",
                "Who lets groups go",
                "Nobody has to where nothing is chosen.",
                required=False,
                choices=("operator", "release-key"),
            ),
            ActionField(
                "deadline", "Deadline", "Time for each group: 24h where it is empty.", False
            ),
            ActionField("hours", "Hours", "When devices may switch: 22:00-05:00.", required=False),
            ActionField(
                "on_fail",
                "Where a gate fails",
                "Back to the former model where nothing is chosen.",
                required=False,
                choices=tuple(one.value for one in OnFail),
            ),
            ActionField(
                "gates",
                "Gates",
                "Limits, NAME=VALUE with spaces between, such as latency=1.5 or latency=off.",
                required=False,
                several=True,
            ),
            ActionField("start", "Start it at once", "", required=False, flag=True),
        ),
        _preview_plan,
        asks=True,
    ),
    Action(
        "rollout-start",
        "Start a rollout",
        "Its first group gets the model; a rollout that is open ends where it is.",
        lambda values: StartRollout(rollout=int(values["rollout"])),
        lambda values: ("rollout", "start", values["rollout"], "--yes"),
        (_ROLLOUT,),
        _of_rollout("rollout-start"),
    ),
    Action(
        "rollout-approve",
        "Approve a group",
        "The group gets the model as soon as those before it have passed.",
        lambda values: ApproveGroup(
            rollout=int(values["rollout"]),
            group=int(values["group"]) if "group" in values else None,
        ),
        lambda values: (
            *("rollout", "approve", values["rollout"]),
            *(("--group", values["group"]) if "group" in values else ()),
        ),
        (_ROLLOUT, ActionField("group", "Group", "The next one where it is empty.", False)),
        _of_rollout("rollout-approve"),
    ),
    Action(
        "rollout-pause",
        "Pause a rollout",
        "Nothing further goes out; devices that run the model keep it.",
        lambda values: PauseRollout(rollout=int(values["rollout"]), reason=values["reason"]),
        _why("pause"),
        (_ROLLOUT, _WHY),
        _of_rollout("rollout-pause"),
    ),
    Action(
        "rollout-resume",
        "Resume a rollout",
        "It goes on with the same group, in spite of what was found; what is found besides counts.",
        lambda values: ResumeRollout(rollout=int(values["rollout"]), reason=values["reason"]),
        _why("resume"),
        (_ROLLOUT, _WHY),
        _of_rollout("rollout-resume"),
    ),
    Action(
        "rollout-abort",
        "Abort a rollout",
        "It ends for good: devices keep what they run, and nobody else gets the model.",
        lambda values: EndRollout(rollout=int(values["rollout"]), reason=values["reason"]),
        _why("abort", "--yes"),
        (_ROLLOUT, _WHY),
        _of_rollout("rollout-abort"),
    ),
    Action(
        "rollout-back",
        "Go back to the former model",
        "It ends for good, and every device switches back to the other slot; nothing is fetched.",
        lambda values: EndRollout(
            rollout=int(values["rollout"]), back=True, reason=values["reason"]
        ),
        _why("back", "--yes"),
        (_ROLLOUT, _WHY),
        _of_rollout("rollout-back"),
    ),
)
_CLASSES = (
    Action(
        "rename-class",
        "Rename a class",
        "The class has another name; the former one stays usable on the devices.",
        lambda values: RenameClass(old=ClassName(values["old"]), new=ClassName(values["new"])),
        lambda values: ("class", "rename", values["old"], values["new"]),
        (ActionField("old", "Name"), ActionField("new", "New name")),
    ),
    Action(
        "merge-classes",
        "Merge two classes",
        "The first becomes another name of the second, because both mean one thing.",
        lambda values: MergeClasses(
            source=ClassName(values["source"]), target=ClassName(values["target"])
        ),
        lambda values: ("class", "merge", values["source"], values["target"]),
        (ActionField("source", "Class"), ActionField("target", "Becomes another name of")),
    ),
)
ACTIONS = {action.name: action for action in (*_DEVICES, *_STAGES, *_MODELS, *_ROLLOUTS, *_CLASSES)}
