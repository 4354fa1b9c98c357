"""Phase `distil` at a site: DCD, equation (3).

It begins with the site's own model after DID of this round, [theta_m]_0, and answers with what the
ensemble made of it, and with its logits on the shared set where the coordinator distils these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from learning.errors import LearningError
from learning.networks.conversion import to_arrays, to_tensors
from learning.training.work import Trained
from methods.dcid.assignment import ENSEMBLE
from methods.dcid.distilling import Pupil, distilling_work
from methods.dcid.images import Images
from methods.dcid.memory import AfterDid
from methods.dcid.messages import decode_ensemble, model_frame, shared_images
from methods.dcid.site import Site
from methods.device_answers import answer_of
from methods.errors import MethodError
from methods.training_half import Answer, Begun
from schemas.values import Digest


@dataclass(frozen=True, eq=False)
class _Kept:
    """What `finish` has to know."""

    site: Site
    shared: Images


def begin(site: Site) -> Begun | None:
    """Return what is distilled, or None where this site has no model after DID of this round.

    Raises `MethodError` for files that do not fit together.
    """
    if ENSEMBLE not in site.order.extras:
        raise MethodError(
            f"{ENSEMBLE}: the order names no logits to distil from; update the coordinator"
        )
    shared = shared_images(site.assignment, site.order.extras)
    logits, began = decode_ensemble(site.order.extras[ENSEMBLE], len(shared), len(site.names))
    after = site.memory.after_did
    if after is None or not _is_of_this_round(site, after, began):
        return None
    pupil = Pupil(*to_tensors(after.arrays), shared, site.pictures)
    tau = site.assignment.settings.tau1
    work = distilling_work(site.assignment, pupil, logits, site.old, tau, site.chance)
    return Begun(work, after.mark.samples, kept=_Kept(site, shared))


def finish(begun: Begun, trained: Trained) -> Answer:
    """Return the weights, with their logits where these are due.

    Raises `MethodError` where training left the numbers. The model after DID is forgotten.
    """
    kept: _Kept = begun.kept
    site = kept.site
    parameters = {name: tensor.detach().cpu() for name, tensor in trained.parameters.items()}
    buffers: dict[str, torch.Tensor] = {n: tensor.cpu() for n, tensor in trained.buffers.items()}
    frame = model_frame(site.assignment, site.sent, len(kept.shared), len(site.names))
    logits = None
    if frame.logits is not None:
        logits = site.infer(parameters, buffers, kept.shared)[1]
    try:
        payload = frame.encode(to_arrays(parameters, buffers), logits)
    except LearningError as error:
        raise MethodError(f"training: {error}") from error
    memory = replace(site.memory, after_did=None)
    return answer_of(begun, payload, memory, trained)


def _is_of_this_round(site: Site, after: AfterDid, began: Digest) -> bool:
    mark, asked = after.mark, site.order.round
    return (mark.stage, mark.round_of_stage + 1, mark.began, mark.rows) == (
        site.order.stage,
        asked.round_of_stage,
        began,
        len(site.names),
    )
