"""How a party describes its own data: where it is, which columns say who a row is about, what the others are."""

from typing import Literal, TypeAlias

import msgspec

from laconic.tables.on_disk import check_memory
from laconic.tables.task import SaidTask
from laconic.values import Settings

ColumnKind: TypeAlias = Literal["numeric", "categorical", "date"]
"""What a column is: `date` becomes days since 1970, and where in the year, the week and the day that is."""

SaidKind: TypeAlias = Literal[
    "numeric", "categorical", "date", "1234.5", "1,234.5", "1.234,5", "2013-01-31", "31.01.2013", "01/31/2013"
]
"""What somebody says that a column is: its kind, or an example of how its numbers or dates are written."""


def plain_kind(said: SaidKind) -> ColumnKind:
    """The kind of column that was said, also by an example."""
    if said in ("numeric", "categorical", "date"):
        return said
    return "date" if said.count("-") + said.count("/") == 2 or said.count(".") == 2 else "numeric"


def notation(said: SaidKind) -> str:
    """The example of how numbers or dates are written, if one was said; else empty."""
    return "" if said in ("numeric", "categorical", "date") else said


DuplicateRule: TypeAlias = Literal["error", "first", "aggregate"]


class IdRules(Settings, frozen=True, tag=False):
    """How ids are written before they are compared; every party of a federation must use the same rules.

    White space around an id is always dropped, and two ways in which Unicode writes one letter are made one.

    Attributes:
        case: `lower` makes AB1 and ab1 the same id.
        spaces: `drop` also leaves out white space inside an id: "12 34" and 1234 become the same.
        zeros: `drop` leaves out leading zeros of ids that are all digits: 007 and 7 become the same.
        dates: the columns of the key that are dates, and how this party's source writes them: `iso` is 2013-01-31,
            `day_first` 31.01.2013 or 31/01/2013, `month_first` 01/31/2013. They become 2013-01-31, with T14:00 for a
            time that is not midnight; times with a zone become UTC.
    """

    case: Literal["keep", "lower"] = "keep"
    spaces: Literal["trim", "drop"] = "trim"
    zeros: Literal["keep", "drop"] = "keep"
    dates: dict[str, Literal["iso", "day_first", "month_first"]] = msgspec.field(default_factory=dict)


class OwnData(Settings, frozen=True, tag=False):
    """One party's data, as its `party.toml` describes it.

    Attributes:
        source: a CSV file (compressed or not), a Parquet file, a folder of Parquet files, or the URL of a database as
            SQLAlchemy writes them, such as sqlite:///bank.db; ${NAME} in a URL is taken from the environment.
            duckdb:///bank.duckdb is read by DuckDB itself, and duckdb:/// with a query over files that it can read.
        table: the table of a database to read; or give a query.
        query: an SQL query that gives the rows; or name a table.
        key: the column, or columns, that say who a row is about; needed where others hold other columns of the same
            people. Where they hold other people, rows of one person are held out together; none if there is no such
            column.
        label: the column to predict; none for a party without labels.
        event: where the label is the time to an event, the column that says whether it came (1) or had not yet (0).
        task: what the label is; none to infer it from its cells.
        columns: what each column is (numeric, categorical, date), or how it is written, as one of the examples 1234.5,
            1,234.5, 1.234,5, 2013-01-31, 31.01.2013 and 01/31/2013; only columns named here are used. Empty uses all
            and infers kinds from the cells.
        prepare: how some columns are prepared for models, other than usual: `bins` for a flag for each quantile bin of
            a number, `woe` for the weight of evidence of a bin or level (two classes, at the label holder).
        on_duplicate: what to do with rows of the same id: refuse them (error), keep the first, or make one of them
            (aggregate: the mean of numbers and dates, the most frequent level; labels must agree). Unset keeps the
            first and notes it with the result; the doctor calls it wrong.
        on_empty: what to do with rows without an id: refuse them (error), or leave them out (drop). Unset leaves them
            out and notes it with the result; the doctor calls it wrong.
        delimiter: what is between the columns of a CSV file; unset to detect it from its first lines.
        encoding: of a CSV file, such as cp1252; unset for UTF-8, or UTF-16 if the file begins with its mark.
        ids: how ids are written before they are compared, for every column of the key.
        erased: a file of ids, one per line, of people who asked to be erased: their rows are left out of all that is
            trained from now on. None for nobody.
        memory: about how much this party's process may use, such as `4 GB`: columns of numbers then lie on disk, in the
            folder for temporary files. Unset keeps all in memory.
    """

    source: str
    key: str | tuple[str, ...] = ()
    table: str | None = None
    query: str | None = None
    label: str | None = None
    event: str | None = None
    task: SaidTask | None = None
    columns: dict[str, SaidKind] = msgspec.field(default_factory=dict)
    prepare: dict[str, Literal["bins", "woe"]] = msgspec.field(default_factory=dict)
    on_duplicate: DuplicateRule | None = None
    on_empty: Literal["error", "drop"] | None = None
    delimiter: str | None = None
    encoding: str | None = None
    ids: IdRules = IdRules()
    erased: str | None = None
    memory: str | None = None

    def __post_init__(self) -> None:
        check_memory(self.memory)
        if self.erased is not None and not self.keys:
            raise ValueError("erased names people by their ids; say data.key, the column that has them")
        if not all(self.keys):
            raise ValueError("key must name the column, or columns, that say who a row is about; or leave it out")
        if len(set(self.keys)) < len(self.keys):
            raise ValueError(f"key names a column twice: {', '.join(self.keys)}")
        if self.in_database and (self.table is None) == (self.query is None):
            raise ValueError("a database needs table (its name) or query (an SQL text), one of the two")
        if not self.in_database and (self.table or self.query):
            raise ValueError(f"table and query are for databases, but source is the file {self.source}")
        check_event(self.label, self.event, self.task)
        for role, names in (("key", self.keys), ("label", (self.label,)), ("event", (self.event,))):
            both = [name for name in names if name in self.columns]
            if both:
                raise ValueError(f"the column {both[0]!r} is the {role} and also listed in columns; leave it out there")
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise ValueError(f"delimiter must be one sign, such as ';', not {self.delimiter!r}")
        strangers = set(self.ids.dates) - set(self.keys)
        if strangers:
            raise ValueError(
                f"ids.dates names {min(strangers)!r}, which is no column of the key ({', '.join(self.keys)})"
            )
        if self.label is None and "woe" in self.prepare.values():
            raise ValueError("prepare = 'woe' is for the party that has the label; say 'bins' here")
        for name in self.labels:
            if name in self.keys:
                raise ValueError(f"the column {name!r} is both key and label; a row's id cannot be predicted")

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the key, in order."""
        return (self.key,) if isinstance(self.key, str) else self.key

    @property
    def labels(self) -> tuple[str, ...]:
        """The column to predict and, of times, the one that says whether the event came."""
        return tuple(name for name in (self.label, self.event) if name is not None)

    @property
    def in_database(self) -> bool:
        """Whether the source is the URL of a database rather than a file."""
        return "://" in self.source


def check_event(label: str | None, event: str | None, task: str | None) -> None:
    """Refuse an event column without times, times without an event column, and both in one."""
    if event is not None and label is None:
        raise ValueError(f"event names {event!r}, but no label: say label, the column of the times (--label COLUMN)")
    if event is not None and event == label:
        raise ValueError(
            f"the column {event!r} is both label and event; the label is the time, the event whether it came"
        )
    if event is not None and task not in (None, "survival"):
        raise ValueError(f"event is for the time to an event (task survival), not for {task}; leave one of them out")
    if event is None and task == "survival":
        raise ValueError("task survival needs event, the column that says whether the event came (--event COLUMN)")
