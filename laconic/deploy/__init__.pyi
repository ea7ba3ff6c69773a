# Where each public name is defined; it is imported when it is first used. Written by `make names`: do not edit.

from .transports.forked import Forked as Forked
from .transports.inprocess import Faults as Faults
from .transports.inprocess import InProcess as InProcess
from .transports.processes import Processes as Processes
