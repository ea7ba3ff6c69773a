"""Transports: how a question reaches a party."""

from contextlib import AbstractContextManager
from typing import Protocol

from laconic.core.party import Party
from laconic.core.peers import Carrier
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
            from laconic.deploy.transports.forked import open_workers

            return open_workers(parties, runtime)
        case Journalled():
            from laconic.deploy.journal import open_journalled

            return open_journalled(parties, runtime)
    return runtime.open(parties)
