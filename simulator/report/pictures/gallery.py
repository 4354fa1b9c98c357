"""Which pictures a report has: file, title, what is seen, and when there is something to see."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fleetledger.simulator.errors import RunError
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.score import name_in_files
from fleetledger.simulator.report.pages.renderer import Shown
from fleetledger.simulator.report.pictures.accuracy import draw_accuracy, draw_forgetting
from fleetledger.simulator.report.pictures.class_map import draw_class_iou, has_class_iou
from fleetledger.simulator.report.pictures.cost import (
    draw_cost,
    draw_times,
    draw_traffic,
    has_times,
    stores_samples,
)
from fleetledger.simulator.report.pictures.devices import draw_devices
from fleetledger.simulator.report.pictures.distribution import draw_distribution
from fleetledger.simulator.report.pictures.entropy import draw_entropy, has_novelty_checks
from fleetledger.simulator.report.pictures.exposure import draw_exposure, has_rollout
from fleetledger.simulator.report.pictures.heat_maps import draw_confusion, draw_matrix
from fleetledger.simulator.report.pictures.over_time import draw_over_time, passes_time
from fleetledger.simulator.report.pictures.rounds import draw_rounds, has_rounds
from fleetledger.simulator.report.pictures.style import as_png, render
from fleetledger.simulator.report.tables.fleet import has_own_accuracy

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Picture:
    """One picture of a report."""

    file: str
    title: str
    caption: str
    draw: Callable[[RunResults], Figure]
    is_there: Callable[[RunResults], bool] = lambda _results: True
    of_pixels: str = ""
    """The caption where mIoU stands for accuracy, if that takes other words."""
    further: Callable[[RunResults], str] = lambda _results: ""
    """What the caption says of what is drawn in some runs only."""

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return self.file.removesuffix(".png")

    def shown(self, results: RunResults) -> Shown:
        """Return the picture of a run, in the words of its score."""
        other = self.of_pixels if results.score == "mIoU" else ""
        return Shown(
            name_in_files(results.score, self.file),
            results.say(self.title),
            (other or results.say(self.caption)) + results.say(self.further(results)),
            as_png(self.draw(results)),
        )


def has_old_classes(results: RunResults) -> bool:
    """Tell whether there was a stage after the first."""
    return results.stages > 1


def describe_papers(results: RunResults) -> str:
    """Say what stands for the numbers of papers, of which few print a curve."""
    published = results.scenario.published
    numbers = [curve for curve in published if not curve.accuracy]
    drawn = (
        (any(curve.accuracy for curve in published), "Dashed: curves that papers print."),
        (any(curve.average is not None for curve in numbers), "Dotted: averages that they print."),
        (
            any(curve.final is not None for curve in numbers),
            "Crosses: the accuracy after the last stage that they print.",
        ),
    )
    return "".join(f" {text}" for is_there, text in drawn if is_there)


def describe_samples(results: RunResults) -> str:
    """Say what the sizes of marks mean, where devices store samples."""
    return " The larger a mark, the more samples they store." if stores_samples(results) else ""


GALLERY = (
    Picture(
        "accuracy.png",
        "Accuracy per stage",
        "Accuracy on the test samples of all classes seen so far, after each stage.",
        draw_accuracy,
        of_pixels="Mean intersection over union of background and all classes seen so far, on the "
        "pixels of all test scenes that show one of these classes, after each stage.",
        further=describe_papers,
    ),
    Picture(
        "forgetting.png",
        "Forgetting, old and new classes",
        "Left: how many points earlier tasks have lost on average since they were answered best. "
        "Right: accuracy on the classes of the newest stage and on those of all earlier ones.",
        draw_forgetting,
        has_old_classes,
        "Left: how many points of mIoU the classes of earlier tasks have lost on average since "
        "they were told best. Right: mIoU of the classes of the newest stage, and of background "
        "and the classes of all earlier ones.",
    ),
    Picture(
        "matrix.png",
        "Accuracy of every task after every stage",
        "Each row is a stage, each column the classes that one stage brought: a(t, i), the mean "
        "over seeds. Reading a column downwards shows how a task fares as others come.",
        draw_matrix,
        has_old_classes,
        "Each row is a stage, each column the classes that one stage brought: their mIoU without "
        "background, the mean over seeds. Reading a column downwards shows how a task fares as "
        "others come.",
    ),
    Picture(
        "confusion.png",
        "Tasks taken for each other",
        "After the last stage, for the test samples of each stage's classes: which stage the "
        "answered class came with. Off the diagonal are mistakes across tasks; mistakes within a "
        "task are on it.",
        draw_confusion,
        has_old_classes,
        "After the last stage, for the pixels of each stage's classes and for those of none, which "
        "are background: which stage the answered class came with. Off the diagonal are mistakes "
        "across tasks; mistakes within a task are on it.",
    ),
    Picture(
        "classes.png",
        "IoU of every class after every stage",
        "Background, and the classes in the order in which they came to the first seed; mean over "
        "seeds. Reading a row from left to right shows how a class fares as others come.",
        draw_class_iou,
        has_class_iou,
    ),
    Picture(
        "devices.png",
        "Accuracy device by device",
        "A device's accuracy is the model's under the device's own class distribution: the sum "
        "over classes of their share of its training samples times the accuracy on the class's "
        "test samples. Left: mean over seeds. Right: the first seed; dotted is the accuracy on "
        "the whole test set.",
        draw_devices,
        has_own_accuracy,
    ),
    Picture(
        "distribution.png",
        "Who holds which classes",
        "Training images of each class on each device, in the first seed; an empty cell is "
        "none. Lines separate stages.",
        draw_distribution,
        of_pixels="Training scenes on each device by the class that has most pixels in them, in "
        "the first seed; an empty cell is none. Lines separate stages. A scene counts once with "
        "every stage of which it shows a class.",
    ),
    Picture(
        "bytes.png",
        "Bytes on the wire",
        "Payload that the transport counted in each stage, control messages and blocks together, "
        "mean over seeds.",
        draw_traffic,
    ),
    Picture(
        "cost.png",
        "Accuracy against cost",
        "Each mark is a stage: what the fleet had sent and received by its end, what its devices "
        "had computed (colour). Mean over seeds.",
        draw_cost,
        further=describe_samples,
    ),
    Picture(
        "rounds.png",
        "Round by round",
        "What was measured in each round, mean over seeds; grey lines are where stages begin.",
        draw_rounds,
        has_rounds,
        "What was measured in each round, mean over seeds; grey lines are where stages begin. mIoU "
        "of rounds is that of the trained network on some of the test scenes.",
    ),
    Picture(
        "over_time.png",
        "Accuracy over the fleet's time",
        "Accuracy of the newest weights by the fleet's clock, mean over seeds, bands ± one sample "
        "standard deviation.",
        draw_over_time,
        passes_time,
    ),
    Picture(
        "entropy.png",
        "Entropy and new tasks, device by device",
        "Mean entropy of each device's current images under the fleet's model, at each of its "
        "looks, in the first seed. Where a task really begins on the device is a dotted line; "
        "marks say whether the device noticed it at once or late, missed it, or took something "
        "else for one. The first stage, which the operator opens, is not judged. Of a large "
        "fleet, the devices that were wrong most often. novelty_checks.csv has the numbers.",
        draw_entropy,
        has_novelty_checks,
    ),
    Picture(
        "exposure.png",
        "Devices that ran the candidate",
        "From its planning on: how many devices had ever run the candidate, and how many ran it, "
        "in the first seed; thin lines are other seeds. Vertical lines are openings of groups, "
        "dashed ones the devices that each allows. Below, a triangle is a verdict that passed, a "
        "cross one that did not.",
        draw_exposure,
        has_rollout,
    ),
    Picture(
        "time.png",
        "Wall time",
        "Where the time of each stage went on the machine that simulated the fleet, mean over "
        "seeds; it is not the time a fleet of real devices would take.",
        draw_times,
        has_times,
    ),
)


def pictures_of(results: RunResults) -> tuple[Picture, ...]:
    """Return the pictures that have something to show."""
    return tuple(picture for picture in GALLERY if picture.is_there(results))


def figure_of(results: RunResults, name: str) -> Figure:
    """Return a picture by name; raise `RunError` where the run has none of it."""
    there = {picture.name: picture for picture in pictures_of(results)}
    if name not in there:
        raise RunError(f"figure: {name!r}; this run has {', '.join(there)}")
    return there[name].draw(results)


def write_figures(results: RunResults, folder: Path, kinds: Iterable[str]) -> list[Path]:
    """Write every picture in each format into a folder; return their paths.

    Raises `RunError` for a format that is none of `style.KINDS`.
    """
    written = []
    for kind in kinds:
        for picture in pictures_of(results):
            file = f"{name_in_files(results.score, picture.name)}.{kind}"
            data = render(picture.draw(results), kind)
            written.append(folder / file)
            written[-1].write_bytes(data)
    return written
