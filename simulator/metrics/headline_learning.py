"""Headline numbers of what was learned: by the fleet as a whole, and device by device.

Equation numbers are those of STSA (arXiv 2506.01327).
"""

import numpy as np

from fleetledger.simulator.metrics.answers import Answers
from fleetledger.simulator.metrics.metric import MeasuredSeed, Metric
from fleetledger.simulator.metrics.task_scores import (
    backward_transfer,
    forward_transfer,
    jain_index,
)


def _domains(seed: MeasuredSeed) -> list[float]:
    return list(seed.last.domain_accuracy.values())


def _forward_transfer(seed: MeasuredSeed) -> float | None:
    return forward_transfer(*seed.answers.ahead()) if isinstance(seed.answers, Answers) else None


def _jain_index(seed: MeasuredSeed) -> float | None:
    own = [device.accuracy for device in seed.devices if device.accuracy is not None]
    return jain_index(np.array(own)) if own else None


ACCURACY = (
    Metric(
        "average_incremental_accuracy",
        "average incremental accuracy",
        "share",
        "higher",
        "Mean over stages of the accuracy on all test samples of the classes seen by then.",
        lambda seed: seed.over_stages(lambda stage: stage.accuracy),
        "Mean over stages of the mIoU over background and all classes seen by then.",
    ),
    Metric(
        "final_accuracy",
        "accuracy after the last stage",
        "share",
        "higher",
        "On the test samples of all classes.",
        lambda seed: seed.last.accuracy,
        "Mean IoU of background and all classes, on the pixels of the test scenes as the network "
        "sees them.",
    ),
    Metric(
        "average_incremental_accuracy_by_tasks",
        "average incremental accuracy, by tasks",
        "share",
        "higher",
        "As above, but every stage's value is the mean over tasks (equation 60 of STSA). It "
        "differs where tasks have different numbers of test samples.",
        lambda seed: seed.over_stages(lambda stage: stage.accuracy_by_tasks),
        "As above, but every stage's value is the mean over tasks of the mIoU of their classes, "
        "without background.",
    ),
    Metric(
        "final_average_accuracy",
        "final average accuracy, by tasks",
        "share",
        "higher",
        "Mean over tasks of the accuracy after the last stage (equation 59 of STSA).",
        lambda seed: seed.last.accuracy_by_tasks,
        "Mean over tasks of the mIoU of their classes after the last stage, without background.",
    ),
    Metric(
        "forgetting",
        "forgetting",
        "points",
        "lower",
        "Mean over earlier tasks of the best accuracy that the task ever had minus its last one "
        "(equation 61 of STSA).",
        lambda seed: seed.last.forgetting,
        "Mean over earlier tasks of the best mIoU that the task's classes ever had minus their "
        "last one.",
    ),
    Metric(
        "backward_transfer",
        "backward transfer (BWT)",
        "points",
        "higher",
        "Mean over earlier tasks of the accuracy after the last stage minus that after the task's "
        "own stage (Lopez-Paz and Ranzato 2017, equation 3).",
        lambda seed: backward_transfer(seed.matrix),
        "Mean over earlier tasks of the mIoU of their classes after the last stage minus that "
        "after their own stage.",
    ),
    Metric(
        "forward_transfer",
        "forward transfer (FWT)",
        "points",
        "higher",
        "Mean over tasks but the first of the accuracy of the model of the stage before on the "
        "task minus chance (Lopez-Paz and Ranzato 2017, equation 4). Known where tasks bring "
        "samples of classes that the head has already.",
        _forward_transfer,
    ),
    Metric(
        "old_accuracy",
        "old classes after the last stage",
        "share",
        "higher",
        "Accuracy on the classes of all stages but the last.",
        lambda seed: seed.last.old_accuracy,
        "Mean IoU of background and the classes of all stages but the last.",
    ),
    Metric(
        "new_accuracy",
        "new classes after the last stage",
        "share",
        "higher",
        "Accuracy on the classes of the last stage.",
        lambda seed: seed.last.new_accuracy,
        "Mean IoU of the classes of the last stage.",
    ),
    Metric(
        "pooled_difference",
        "difference to pooled images",
        "points",
        "higher",
        "Accuracy after the last stage minus that of float64 ridge regression on the same images "
        "in one place: what learning apart costs.",
        lambda seed: (
            None if (pooled := seed.last.pooled_accuracy) is None else seed.last.accuracy - pooled
        ),
    ),
    Metric(
        "recall",
        "macro recall",
        "share",
        "higher",
        "Mean over classes of the recall, averaged over stages.",
        lambda seed: seed.over_stages(lambda stage: stage.recall),
    ),
    Metric(
        "f1",
        "macro F1",
        "share",
        "higher",
        "Mean over classes of F1, averaged over stages.",
        lambda seed: seed.over_stages(lambda stage: stage.f1),
    ),
    Metric(
        "recall_batchwise128",
        "recall as LGA printed it",
        "share",
        "higher",
        "Recall of each test mini-batch of 128 averaged over all seen classes, absent ones scoring "
        "0; only to compare with that paper.",
        lambda seed: seed.over_stages(lambda stage: stage.recall_batchwise128),
    ),
    Metric(
        "f1_batchwise128",
        "F1 as LGA printed it",
        "share",
        "higher",
        "F1 likewise.",
        lambda seed: seed.over_stages(lambda stage: stage.f1_batchwise128),
    ),
)
DEVICES = (
    Metric(
        "device_accuracy",
        "mean over devices",
        "share",
        "higher",
        "Mean over devices of the accuracy after the last stage under the device's own class "
        "distribution: the sum over classes of its share of the device's training samples times "
        "the accuracy on the class's test samples.",
        lambda seed: own.mean if (own := seed.last.device_accuracy) else None,
    ),
    Metric(
        "worst_device_accuracy",
        "worst device",
        "share",
        "higher",
        "The lowest of these.",
        lambda seed: own.lowest if (own := seed.last.device_accuracy) else None,
    ),
    Metric(
        "device_accuracy_deviation",
        "spread over devices",
        "points",
        "lower",
        "Standard deviation of these over devices.",
        lambda seed: own.deviation if (own := seed.last.device_accuracy) else None,
    ),
    Metric(
        "own_accuracy",
        "own test parts",
        "share",
        "higher",
        "Mean over devices of the accuracy after the last stage on the device's own test part, "
        "which is drawn as its training data are.",
        lambda seed: own.mean if (own := seed.last.own_accuracy) else None,
    ),
    Metric(
        "worst_own_accuracy",
        "worst own test part",
        "share",
        "higher",
        "The lowest of these.",
        lambda seed: own.lowest if (own := seed.last.own_accuracy) else None,
    ),
    Metric(
        "own_accuracy_deviation",
        "spread over own test parts",
        "points",
        "lower",
        "Standard deviation of these over devices.",
        lambda seed: own.deviation if (own := seed.last.own_accuracy) else None,
    ),
)
DOMAINS = (
    Metric(
        "domain_accuracy",
        "mean over domains",
        "share",
        "higher",
        "Mean over domains of the accuracy after the last stage on the domain's test samples.",
        lambda seed: float(np.mean(found)) if (found := _domains(seed)) else None,
    ),
    Metric(
        "worst_domain_accuracy",
        "worst domain",
        "share",
        "higher",
        "The lowest of these.",
        lambda seed: min(found) if (found := _domains(seed)) else None,
    ),
    Metric(
        "device_accuracy_jain",
        "Jain's index over devices",
        "share",
        "higher",
        "Fairness of these over devices (Jain, Chiu and Hawe 1984): the square of their sum by "
        "their number times the sum of their squares; 100 % where all are equal.",
        _jain_index,
    ),
)
