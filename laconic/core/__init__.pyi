# Where each public name is defined; it is imported when it is first used. Written by `make names`: do not edit.

from .method import Method as Method
from .method import task_of as task_of
from .party import Party as Party
from .peers import Peers as Peers
from .result import Result as Result
from .step import step as step
