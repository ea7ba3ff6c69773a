"""Transports: how a question reaches a party."""

import os
from contextlib import AbstractContextManager
from typing import Protocol

from laconic.core.party import Party
from laconic.core.peers import Carrier
from laconic.core.step import Script
from laconic.learn.device import is_on_cpu
from laconic.plan.runtime import AnyRuntime, Journalled
from laconic.plan.runtime import Faults as Faults
from laconic.plan.runtime import Forked as Forked
from laconic.plan.runtime import InProcess as InProcess
from laconic.plan.runtime import Processes as Processes


class Runtime(Protocol):
    """Somebody's own way to reach parties, in place of a plan's settings."""

    def open(self, parties: tuple[Party, ...]) -> AbstractContextManager[Carrier]:
        """Reach these parties for as long as the block lasts."""
        ...


_FEWEST_PARTIES, _FEWEST_ROWS = 8, 100_000
"""From so many parties on, with so many rows in all, training them by turns takes longer than workers take to start."""


def suited(runtime: AnyRuntime | Runtime, script: Script, parties: tuple[Party, ...]) -> AnyRuntime | Runtime:
    """The runtime, or a worker per core in place of the default where many parties train by themselves for long.

    What a party computes is the same, to the bit, wherever it is: only the time differs. Parties stay in this process
    where the script does not say that they train for long, where they or their rows are few, and for a GPU.
    """
    rows = sum(party.data.rows for party in parties)
    worth = script.long_training and len(parties) >= _FEWEST_PARTIES and rows >= _FEWEST_ROWS
    if runtime != InProcess() or not worth or not hasattr(os, "fork"):
        return runtime
    from laconic.deploy.transports.inprocess import cores

    return Forked(workers=cores()) if cores() > 1 and is_on_cpu() else runtime


def open_runtime(parties: tuple[Party, ...], runtime: AnyRuntime | Runtime) -> AbstractContextManager[Carrier]:
    """Reach parties where the settings say they are, for as long as the block lasts."""
    match runtime:
        case InProcess():
            from laconic.deploy.transports.inprocess import open_calls

            return open_calls(parties, runtime)
        case Processes():
            from laconic.deploy.transports.processes import open_processes

            return open_processes(parties, runtime)
        case Forked():
            from laconic.deploy.transports.processes import open_workers

            return open_workers(parties, runtime)
        case Journalled():
            from laconic.deploy.journal import open_journalled

            return open_journalled(parties, runtime)
    return runtime.open(parties)
