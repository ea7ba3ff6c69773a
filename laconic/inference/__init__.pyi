# Where each public name is defined; it is imported when it is first used. Written by `make names`: do not edit.

from .absent import Abstain as Abstain
from .absent import AnyAbsent as AnyAbsent
from .absent import Refit as Refit
from .absent import SoloModel as SoloModel
from .absent import Store as Store
from .absent import Zeros as Zeros
from .bundle import About as About
from .export import export_model as export_model
from .local_transport import parts_of as parts_of
from .local_transport import reach_parts as reach_parts
from .local_transport import read_new as read_new
from .local_transport import read_new_labels as read_new_labels
from .merge import read_labelled as read_labelled
from .predict import Model as Model
from .predict import Scores as Scores
from .reasons import Reasons as Reasons
from .reasons import explain as explain
from .server.app import make_app as make_app
from .server.guard import Access as Access
from .server.guard import Limits as Limits
from .server.guard import read_tokens as read_tokens
