# Where each public name is defined; it is imported when it is first used. Written by `make names`: do not edit.

from .transports import Faults as Faults
from .transports import Forked as Forked
from .transports import InProcess as InProcess
from .transports import Processes as Processes
