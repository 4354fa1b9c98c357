"""Losses over pixels for class-incremental segmentation: FBL, in two modes, and what it is held to.

Logits are (B, C, h, w), labels (B, h, w). Channel 0 is background, a class has its index plus one,
and 255 marks pixels that no loss counts. A task's masks show its own classes; pixels of earlier and
of later ones are labelled background. The old model has the first C_old channels.

| equation | module |
| --- | --- |
| (1) cross-entropy; entropy h | `pixels` |
| (2) pseudo labels, Algorithm 1 | `pseudo_labels`, `thresholds` |
| (3) to (6) forgetting-balanced compensation | `forgetting_balance` |
| (7) to (9) relation consistency | `relation_consistency` |
| L_POD | `local_pod` |
| (10), the ablations, the baselines | `presets`, of `terms` over shared `parts` of a `step` |
| the released program's terms | `released` |
| LwF, ILT, MiB | `dense_distillation` |
| a `LossFunction` of a network | `composition` |

(11), the task monitor, is `learning.numerics.pixel_uncertainty`; the head grows by
`learning.networks.segmentation.head`.

FBL: Dong et al., "Federated Incremental Semantic Segmentation", CVPR 2023.
"""
