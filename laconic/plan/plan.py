"""A run as data: the method, whose rows, the seed, the limits and the runtime, as values that text can hold."""

from math import inf, sqrt
from typing import Literal

import msgspec

from laconic.align.agreed import AgreedIds
from laconic.align.alignment import AT_RANDOM, ExactMatch
from laconic.align.psi import PrivateMatch
from laconic.align.schema import SameColumns
from laconic.core.capabilities import Budgeted
from laconic.core.method import Method
from laconic.core.step import steps_of
from laconic.data.federation import HELD_OUT, Federation
from laconic.data.partition.columns import Cut
from laconic.data.partition.rows import PartBy, RowCut, part_by
from laconic.data.schema import SaidKind, check_event
from laconic.errors import PlanError, Refused
from laconic.learn.device import Device
from laconic.methods import registry
from laconic.plan.runtime import AnyRuntime, InProcess
from laconic.privacy.accounting import AnyAccountant, Pld
from laconic.privacy.budget import Budget as PrivacyBudget
from laconic.privacy.mechanisms.gaussian import mu_of
from laconic.tables.on_disk import check_memory
from laconic.tables.table import Table
from laconic.tables.task import SaidTask
from laconic.values import Settings, check_least


class DataPlan(Settings, frozen=True, tag=False):
    """Whose rows: a public data set dealt among parties, or one file per party.

    Attributes:
        name: a public data set, as `laconic data` lists them; none when files are given.
        files: one CSV or Parquet file per party, as a list (parties are called by their file) or as party = "file"; or
            one party file (bank.toml) per party, which says the rest itself.
        id: the column that says which person a row is about; the same name in every file. Horizontal methods can do
            without.
        label: the column to predict, in one of the files; for horizontal methods, in all of them.
        event: where the label is the time to an event, the column that says whether it came (1) or had not yet (0).
        public: a file of rows of the same columns that everybody may see, for horizontal methods; none without one.
            With party files everybody has it, beside the party file; all must have the same rows.
        schema: of horizontal party files, a file of columns, levels, scales and classes that everybody has, beside the
            party file (docs/data.md). Nothing is then to be agreed on before learning; none to agree by asking.
        agree: how horizontal parties agree on columns, if not as usual: what to do where one lacks a column or has
            another unit. None for as usual.
        people: of horizontal party files, `apart` says that nobody is at two parties, so that each may spend all of
            budget.epsilon. None if nobody knows: then it holds for someone who is at all of them.
        home: of horizontal party files, the parties that get the final model, and score it; None for every one.
        kinds: what a column of the files is (numeric, categorical, date), or an example of how it is written (1,234.5,
            1.234,5, 31.01.2013, 01/31/2013), where that should not be inferred.
        task: what the label is; none to guess it from its cells.
        parties: among how many a public data set is dealt, if `cut` is not set.
        cut: how its columns, or for horizontal methods its rows, are dealt; none for equal shares of a table's columns,
            quadrants or bands of images, or rows with label skew.
        hub: which party has the labels of a public data set, by its place from 0 or by name. By envelope, who has the
            labels; or, for horizontal methods, who hosts: a party, or a server without rows.
        overlap: how many training rows all parties share, or which share if below 1; none for all.
        match: how the rows of files are matched; `test` and `valid` there are set from here.
        test: share of the rows to score on; a public data set with an official test set uses that.
        valid: share of the other rows that methods may use to stop early.
        split_by: of own files, a column of the label holder (horizontal: of every party) with dates or numbers: the
            last rows by it are scored on. None parts rows at random.
        group: of own files, such a column whose rows of one value are all learnt from or all scored on. None parts
            rows at random.
        memory: of own Parquet files with other columns of the same people, about how much a party's process may use,
            such as `4 GB`: columns of numbers then lie on disk. None keeps all in memory. Party files say it
            themselves.
    """

    name: str | None = None
    files: tuple[str, ...] | dict[str, str] = ()
    id: str | None = None
    label: str | None = None
    event: str | None = None
    public: str | None = None
    kinds: dict[str, SaidKind] = msgspec.field(default_factory=dict)
    task: SaidTask | None = None
    parties: int = 3
    cut: Cut | RowCut | None = None
    hub: int | str = 0
    overlap: int | float | None = None
    match: ExactMatch | PrivateMatch | AgreedIds = ExactMatch()
    test: float = HELD_OUT
    valid: float = 0.1
    split_by: str | None = None
    group: str | None = None
    schema: str | None = None
    agree: SameColumns | None = None
    people: Literal["apart"] | None = None
    home: tuple[str, ...] | None = None
    memory: str | None = None

    def __post_init__(self) -> None:
        check_memory(self.memory)
        if self.split_by is not None and self.group is not None:
            raise ValueError("rows are parted by time (split_by) or by group (group), not by both; leave one out")
        if self.by is not None and not self.files:
            raise ValueError("split_by and group are for your own files; a public data set is parted as it says")
        if self.match.held_out is not AT_RANDOM:
            raise ValueError("say data.split_by or data.group, by which match.held_out is set")
        if (self.name is None) == (not self.files):
            raise ValueError(
                "name a public data set (name, see `laconic data`) or your own files (files), one of the two"
            )
        parties, tables = ([path for path in self.paths if path.endswith(".toml") is party] for party in (True, False))
        if parties and tables:
            raise ValueError(
                f"{parties[0]} is a party file and {tables[0]} is a table; give party files for all parties, or tables"
            )
        if self.memory is not None and (not self.files or self.of_parties):
            raise ValueError("memory is for your own tables; a party file says it itself, as data.memory")
        if self.files and not self.of_parties and self.label is None:
            raise ValueError(
                "files need label (the column to predict), and id (the column that says who a row is about) unless the "
                "method is horizontal"
            )
        check_event(self.label, self.event, self.task)
        if self.public is not None and not self.files:
            raise ValueError("public is for your own files: a public data set has public rows already; leave it out")
        check_least(1, parties=self.parties)
        for share, value in (("test", self.test), ("valid", self.valid)):
            if not 0 < value < 1:
                raise ValueError(f"{share} is a share of the rows above 0 and below 1, not {value}")
            said, usual = getattr(self.match, share), getattr(ExactMatch(), share)
            if said not in (usual, value):
                raise ValueError(f"say {share} = {said} for the data as a whole, not match.{share}")
        if self.overlap is not None and self.overlap <= 0:
            raise ValueError(f"overlap is a number of rows, or a share below 1, not {self.overlap}")

    @property
    def by(self) -> PartBy | None:
        """The column by which rows are parted; None for at random."""
        return part_by(self.split_by, self.group)

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, whether parties are named or not."""
        return tuple(self.files.values() if isinstance(self.files, dict) else self.files)

    @property
    def of_parties(self) -> bool:
        """Whether the files are party files rather than tables."""
        return bool(self.files) and all(path.endswith(".toml") for path in self.paths)


class Budget(Settings, frozen=True, tag=False):
    """Limits that a run must keep, or it is refused or ends early.

    Attributes:
        max_bytes: fitting stops before more than this many bytes have crossed; none for no limit.
        epsilon: the most privacy loss that any person's row may suffer by all that bears priced noise, such as
            released models; what bears none is listed beside it. None for no promise.
        delta: the probability, per person, that the promise of epsilon fails.
        split: each party's share of epsilon by name, in any unit; a party not named has share 1.
        accountant: how losses add up.
        equal_noise: whether all parties use noise of one multiplier, and not noise that costs each the same loss; goes
            without split.
        least_rows: of horizontal party files, how many training rows every party has at least; epsilon is kept for
            that many, as nobody knows how many the others have, and a party with fewer takes no part. None for the
            rows that are there, where all are in one place.
    """

    max_bytes: int | None = None
    epsilon: float | None = None
    delta: float = 1e-5
    split: dict[str, float] = msgspec.field(default_factory=dict)
    accountant: AnyAccountant = Pld()
    equal_noise: bool = False
    least_rows: int | None = None

    def __post_init__(self) -> None:
        check_least(1, max_bytes=self.max_bytes, least_rows=self.least_rows)
        if self.epsilon is not None and not self.epsilon > 0:
            raise ValueError(f"epsilon must be above 0, not {self.epsilon}; leave it out for no promise")
        if not 0 < self.delta < 1:
            raise ValueError(f"delta is a probability above 0 and below 1, not {self.delta}")
        if self.equal_noise and self.split:
            raise ValueError("equal_noise gives all parties one noise, and split different ones; leave one of them out")

    @property
    def byte_limit(self) -> float:
        """`max_bytes`, or infinity where there is no limit."""
        return inf if self.max_bytes is None else self.max_bytes


class Plan(Settings, frozen=True, tag=False):
    """All that decides a run: two runs of one plan give the same numbers, on the processor to the bit.

    Attributes:
        method: what is run, with all its settings.
        data: whose rows.
        seed: for all randomness, including which rows are held out.
        look_every: score the model after every so many turns of fitting; none scores it at the end only.
        budget: limits that the run must keep.
        runtime: where the parties are.
        device: what torch learns on; auto is a GPU (cuda or mps) where there is one, else the processor (cpu), where
            alone numbers are the same to the bit. A run over several machines takes each party's own from its party
            file.
    """

    method: "registry.AnyMethod"  # As text: methods are searched for when a plan is first read, not on import.
    data: DataPlan
    seed: int = 0
    look_every: int | None = None
    budget: Budget = Budget()
    runtime: AnyRuntime = InProcess()
    device: Device = "auto"

    def __post_init__(self) -> None:
        check_least(0, seed=self.seed)
        if self.look_every is not None and self.look_every < 1:
            raise ValueError(
                f"look_every must be 1 or more, not {self.look_every}; leave it out to score at the end only"
            )
        if self.data.files:
            (_check_columns_apart if self.method.kind == "vertical" else _check_rows_apart)(self.method, self.data)


def _check_columns_apart(method: Method, data: DataPlan) -> None:
    """Refuse files that cannot be of parties with other columns."""
    if data.id is None and not data.of_parties:
        raise ValueError(
            "data: files need id (the column that says who a row is about) and label (the column to predict): "
            f"{type(method).__name__} is for parties with other columns of the same people"
        )
    if data.of_parties and (data.id, data.label, data.event, data.task, data.kinds) != (None,) * 4 + ({},):
        raise ValueError("party files say id, label, event, task and kinds themselves; leave those out")
    horizontal = {"public": data.public, "schema": data.schema, "agree": data.agree, "people": data.people} | {
        "home": data.home
    }
    for name, given in horizontal.items():
        if given is not None:
            raise ValueError(
                f"data.{name} is for horizontal methods, and {type(method).__name__} is vertical; leave it out"
            )


def _check_rows_apart(method: Method, data: DataPlan) -> None:
    """Refuse files that cannot be of parties with other rows, and settings that would be ignored."""
    name = type(method).__name__
    if data.of_parties and data.task is not None:
        raise ValueError("party files say themselves what the label is (data.task there); leave data.task out")
    if data.schema is not None and (not data.of_parties or data.public is not None or data.agree is not None):
        raise ValueError(
            "data.schema is for party files, and says all that public rows or agreeing would; leave these out"
        )
    if data.home is not None and (not data.of_parties or not data.home):
        raise ValueError("data.home names party files' parties, one or more, that get the final model; or leave it out")
    if data.people is not None and not data.of_parties:
        raise ValueError("data.people is for party files; of tables in one place, ids (data.id) say who is at several")
    if data.match != ExactMatch():
        raise ValueError(f"data.match is for parties with other columns; {name} matches no rows, so leave it out")
    if data.cut is not None:
        raise ValueError(f"data.cut deals a public data set; the files say which rows each party of {name} has")


def keep_budget(plan: Plan, federation: Federation) -> Method:
    """The plan's method, with noise that keeps its budget if it promises an epsilon."""
    if plan.budget.epsilon is None or not isinstance(plan.method, Budgeted):
        return plan.method
    several = federation.facts.get("at_several") if federation.kind == "horizontal" else None
    if several:
        # Methods of parties with other rows work their noise out for people who are at one party.
        raise PlanError(
            f"budget.epsilon = {plan.budget.epsilon:g} cannot be kept: by their ids, {several:,} people are at several "
            "parties, and would lose at each; leave their rows to one party, or set noise yourself and see the price"
        )
    for name in federation.peers if federation.kind == "horizontal" else ():
        refuse_few_rows(plan, name, federation.tables[name])
    return keep_budget_of(plan, least_rows(plan, federation), federation.hub, federation.peers)


def refuse_few_rows(plan: Plan, party: str, table: Table) -> None:
    """Refuse that a party takes part with fewer rows than its noise is worked out for."""
    least, rows = plan.budget.least_rows, len(table.cuts.get("train", ()))
    if plan.budget.epsilon is not None and least is not None and rows < least:
        raise Refused(
            f"{party} has fewer training rows than budget.least_rows = {least:,}, for which noise is worked out; lower "
            "it in everybody's plan, or leave the party out",
            f"; it has {rows:,}",
        )


def keep_budget_of(plan: Plan, rows: int, hub: str, guests: tuple[str, ...]) -> Method:
    """The same for so many training rows and these parties, where their tables are not at hand."""
    budget = plan.budget
    if budget.epsilon is None or not isinstance(plan.method, Budgeted):
        return plan.method
    if plan.look_every is not None:
        raise PlanError(
            "look_every asks for held-out rows again and again, which budget.epsilon does not cover; leave out one"
        )
    unknown = plan.data.of_parties and plan.data.people is None
    wanted = PrivacyBudget(
        epsilon=budget.epsilon,
        delta=budget.delta,
        people="shared" if plan.method.kind == "vertical" or unknown else "disjoint",
        split=budget.split,
        accountant=budget.accountant,
        equal_noise=budget.equal_noise,
        besides=_noise_beside(plan),
    )
    return plan.method.within(wanted, rows, hub, guests)


def agreement(plan: Plan) -> SameColumns | None:
    """How parties with other rows agree on columns, with noise that keeps its share of the budget; None for as usual.

    Raises:
        PlanError: there is to be noise, and neither a budget nor a setting says how much.
    """
    agree, budget = plan.data.agree, plan.budget
    if agree is None or agree.noise is None or agree.noise.sigma is not None:
        return agree
    if budget.epsilon is None:
        raise PlanError(
            "data.agree.noise does not say how much: set data.agree.noise.sigma, or budget.epsilon, of which "
            f"agreeing then takes a share of {agree.noise.share:g}"
        )
    loss = mu_of(budget.epsilon, budget.delta) * sqrt(agree.noise.share / _copies(plan))
    return msgspec.structs.replace(agree, noise=agree.noise.with_sigma(1 / loss))


def _noise_beside(plan: Plan) -> tuple[float, ...]:
    """What agreeing on columns costs a person, wherever it is known: the noise of each release."""
    agree = agreement(plan)
    return () if agree is None or agree.noise is None else (agree.noise.needed_sigma(),) * _copies(plan)


def _copies(plan: Plan) -> int:
    """At how many parties with other rows a person may be."""
    return len(plan.data.paths) if plan.data.of_parties and plan.data.people is None else 1


def least_rows(plan: Plan, federation: Federation) -> int:
    """How many training rows there are at least: fewer rows mean that each takes part more often, at a higher price."""
    if federation.kind == "horizontal":
        return plan.budget.least_rows or min(len(federation.tables[name].cut("train")) for name in federation.peers)
    if federation.aligned:
        return len(federation.tables[federation.hub].cut("train"))
    ids = [{str(one) for one in table.keys} for table in federation.tables.values()]
    return training_rows(plan.data, len(set.intersection(*ids)))


def training_rows(data: DataPlan, shared: int) -> int:
    """How many of so many shared rows are left for training at least, however the cuts are rounded."""
    return max(1, int(shared * (1 - data.test) * (1 - data.valid)) - 2)


def refuse_unkept(plan: Plan) -> None:
    """Refuse a plan that promises an epsilon while its method cannot keep one.

    A method keeps a budget if it can work out its noise (see `Budgeted`), or if nothing leaves at all.
    """
    if plan.budget.epsilon is None or isinstance(plan.method, Budgeted):
        return
    broken = open_releases(plan.method)
    if broken:
        raise PlanError(
            f"budget.epsilon = {plan.budget.epsilon:g} cannot be promised: {type(plan.method).__name__} makes open "
            f"releases, which no priced noise covers (in its steps {', '.join(broken)}; see `laconic methods`). Leave "
            "budget.epsilon out, or use FedOnce, which can keep a budget for its models, or Solo, which sends nothing"
        )


def open_releases(method: Method) -> dict[str, str]:
    """What a method lets leave a party without a priced noise, in words, by step."""
    said = {name: (declared.gives, declared.takes) for name, declared in steps_of(method).items()}
    return {name: " and ".join(filter(None, words)) for name, words in said.items() if any(words)}
