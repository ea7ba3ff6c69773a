"""A run as data: plans, their text, and running them."""

from laconic.plan.execute import execute, execute_and_keep, federation_of
from laconic.plan.promises import open_releases, refuse_unkept
from laconic.plan.shape import AnyRuntime, Budget, DataPlan, Plan
from laconic.plan.text import change_plan, draft, read_plan, read_value, to_plain, write_plan

__all__ = [
    "AnyRuntime",
    "Budget",
    "DataPlan",
    "Plan",
    "change_plan",
    "draft",
    "execute",
    "execute_and_keep",
    "federation_of",
    "open_releases",
    "read_plan",
    "read_value",
    "refuse_unkept",
    "to_plain",
    "write_plan",
]
