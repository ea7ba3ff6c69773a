"""A run as data: plans and their text."""

from laconic.plan.plan import Budget, DataPlan, Plan, open_releases, refuse_unkept
from laconic.plan.runtime import AnyRuntime
from laconic.plan.text import change_plan, draft, read_plan, read_plan_file, read_value, to_plain, write_plan

__all__ = [
    "AnyRuntime",
    "Budget",
    "DataPlan",
    "Plan",
    "change_plan",
    "draft",
    "open_releases",
    "read_plan",
    "read_plan_file",
    "read_value",
    "refuse_unkept",
    "to_plain",
    "write_plan",
]
