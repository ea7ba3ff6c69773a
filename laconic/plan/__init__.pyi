# Where each public name is defined; it is imported when it is first used. Written by `make names`: do not edit.

from .plan import Budget as Budget
from .plan import DataPlan as DataPlan
from .plan import Plan as Plan
from .plan import open_releases as open_releases
from .plan import refuse_unkept as refuse_unkept
from .published import papers as papers
from .published import read_preset as read_preset
from .published import read_table as read_table
from .runtime import AnyRuntime as AnyRuntime
from .runtime import Journalled as Journalled
from .text import change_plan as change_plan
from .text import draft as draft
from .text import plan_fingerprint as plan_fingerprint
from .text import read_plan as read_plan
from .text import read_plan_file as read_plan_file
from .text import read_value as read_value
from .text import to_plain as to_plain
from .text import write_plan as write_plan
