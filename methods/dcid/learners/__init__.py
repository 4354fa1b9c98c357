"""Incremental learners that sites choose by name: one interface, a file for each.

| name | anchor loss l_a | head | lambda |
| --- | --- | --- | --- |
| `icarl` | divergence of the old classes' scores from the old model's | linear | 5 |
| `lucir` | angle of features to the old model's; anchors rank before new classes | cosine | 5 |
| `erdil` | angles within triples of anchors, as the old model saw them | linear | 100 |
| `tpcil` | correlation of anchors' similarities with the old model's | cosine | 15 |

`traits` says head and lambda without torch; everything else imports it.
"""
