"""Plans for segmentation, where a picture has several classes and so belongs to several tasks.

`settings` knows the protocols by name, such as 15-1; `overlapped` says which pictures a task has,
`deal` which of them a device gets, and `plan_maker.make_segmentation_plan` puts it together;
`samples` tells that plan in samples of one task each.
"""

from fleetledger.simulator.plan.segmentation.plan_maker import make_segmentation_plan
from fleetledger.simulator.plan.segmentation.settings import TaskSetting

__all__ = ["TaskSetting", "make_segmentation_plan"]
