"""FBL, its ablations and its rivals: on scenes of digits, CamVid, and the paper's data sets."""
