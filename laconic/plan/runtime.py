"""Where a run's parties are, as plain settings: `laconic.deploy.transports.open_runtime` opens them."""

from typing import TypeAlias

from laconic.values import Settings, check_least


class Faults(Settings, frozen=True):
    """How parties fail in a simulated federation.

    Attributes:
        late: the probability that an answer comes after the deadline; the party did the work, the hub goes without.
        lost: the probability, before each question, that a party is gone from then on.
        absent: parties that never answer at all.
        slowness: mean of the simulated delays, in seconds that nobody waits: they decide the order in which answers
            come, and who misses a deadline. 0 keeps the order asked.
        seed: which failures come.
    """

    late: float = 0.0
    lost: float = 0.0
    absent: tuple[str, ...] = ()
    slowness: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, probability in (("late", self.late), ("lost", self.lost)):
            if not 0 <= probability <= 1:
                raise ValueError(f"{name} is a probability from 0 to 1, not {probability}")
        check_least(0, slowness=self.slowness)


class InProcess(Settings, frozen=True):
    """All parties in this process: the default.

    Attributes:
        faults: late and lost parties to simulate; none by default.
        deadline: the longest simulated delay that still counts as in time; None is no limit.
        workers: how many parties answer at the same time, each in a thread; None is one, or one per core where a
            script says that its steps are long matrix products. Every party has its own rows, memory and randomness,
            so that the numbers stay the same. Where nothing is set here, a run of many parties that train for long
            takes `Forked` workers in its place, one per core; 1 keeps them in this process.
    """

    faults: Faults = Faults()
    deadline: float | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        check_least(1, workers=self.workers)


class Processes(Settings, frozen=True):
    """Every party in an operating-system process of its own.

    Attributes:
        deadline: seconds to wait for the answers to one question; None waits for ever. A party that is late is
            stopped, and keeps the memory that it had before the question.
        threads: processor threads per party.
        folder: where each party keeps its memory, so that it is there after a crash; none for a folder that is deleted
            when the run ends. `Journalled` sets it.
    """

    deadline: float | None = None
    threads: int = 1
    folder: str | None = None

    def __post_init__(self) -> None:
        if self.deadline is not None and self.deadline <= 0:
            raise ValueError(f"deadline must be above 0 seconds, not {self.deadline}; use None to wait for ever")


class Forked(Settings, frozen=True):
    """Parties shared out among a few forked workers: for many small parties on one machine.

    Attributes:
        workers: how many; as many as there are cores is best.
    """

    workers: int = 2

    def __post_init__(self) -> None:
        check_least(1, workers=self.workers)


class Journalled(Settings, frozen=True):
    """Every party in a process of its own, and everything kept in a folder: a run that was cut off goes on there.

    Attributes:
        folder: where the journal and the parties' memories are kept; empty or absent for a new run.
        within: the processes.
    """

    folder: str
    within: Processes = Processes()


AnyRuntime: TypeAlias = InProcess | Processes | Forked | Journalled
