# Where each public name is defined; it is imported when it is first used. Written by `make names`: do not edit.

from .task import Task as Task
