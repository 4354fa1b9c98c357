"""Losses over pixels for class-incremental segmentation: FBL, in two modes, and what it is held to.

Logits are (B, C, h, w), labels (B, h, w). Channel 0 is background, a class has its index plus one,
and 255 marks pixels that no loss counts. A task's masks show its own classes; pixels of earlier and
of later ones are labelled background. The old model has the first C_old channels.

FBL: Dong et al., "Federated Incremental Semantic Segmentation", CVPR 2023.
"""
