"""Predicting and scoring new rows with a model: each party's own, as tables or as files."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np

from laconic.core.peers import Carrier
from laconic.data.readers.federate import Source
from laconic.deploy.result import Result
from laconic.errors import DataError, PlanError, closest
from laconic.inference.absent import AnyAbsent, FromStore, Measured
from laconic.inference.bundle import About, Card, Part
from laconic.inference.bundle_files import folder_name
from laconic.inference.local_transport import read_new, read_new_labels
from laconic.inference.merge import forgotten, refuse_forgotten
from laconic.inference.predict import Model, Scores, load_model
from laconic.tables.table import Table
from laconic.tables.task import Score, headline, metrics


class PartsAtHand(Protocol):
    """All parties' parts of a model that are on this machine: in a folder, or in memory after fitting."""

    @property
    def folder(self) -> Path | None:
        """The folder they are in; None if they were not saved."""
        ...

    @property
    def result(self) -> Result | None:
        """The record of the run; None if it is not known."""
        ...

    def parts(self) -> dict[str, Part]:
        """Every party's part, the hub's too, as it is now."""
        ...

    def reach(
        self, hub: Part, parts: Mapping[str, Part], tables: Mapping[str, Table]
    ) -> AbstractContextManager[Carrier]:
        """Reach the parties that have rows; what they release is written into their parts."""
        ...

    def save(self, folder: Path, *, keep: bool, replace_old: bool) -> Card:
        """Write a folder per party, and return the model's card."""
        ...


def predict_rows(
    model: Model,
    rows: "Mapping[str, Source] | Source",
    notes: list[str],
    *,
    absent: AnyAbsent = Measured(),  # noqa: B008 (frozen)
    without: Sequence[str] = (),
) -> Scores:
    """Predictions for new rows, as `Model.predict` describes; what was decided when reading is added to `notes`."""
    if not isinstance(rows, Mapping):
        return _predict_alone(model, rows, notes, read_as=by_place(model))
    if not rows:
        raise DataError("there are no rows to predict; give each party's, such as {'bank': new_rows}")
    if model.asks_nobody:
        found = [_predict_alone(model, one, notes, read_as=model.part.about) for one in rows.values()]
        together = found[0]
        for more in found[1:]:
            together = together.followed_by(more)
        return together
    with reach_rows(model, rows, notes, without) as (own, carrier, ids):
        return as_saved(model).ask(own, carrier, ids, absent=absent, note=True)


def as_saved(model: Model) -> Model:
    """The model in its folder, if it was saved since it was fitted: what is released from then on is written there."""
    if model.part.path is None and model.at_hand is not None and model.at_hand.folder is not None:
        return load_model(model.at_hand.folder, method=type(model.method))
    return model


@contextmanager
def reach_rows(
    model: Model, rows: Mapping[str, Source], notes: list[str], without: Sequence[str] = ()
) -> Iterator[tuple[Table, Carrier, list[str]]]:
    """The hub's own new rows, a way to ask the parties that have some, and whom they are about."""
    model = as_saved(model)
    parts = {model.part.about.party: model.part} if model.at_hand is None else model.at_hand.parts()
    _refuse_strangers(model, parts, rows, without)
    tables = {name: read_new(parts[name].about, one, notes) for name, one in rows.items()}
    hub = model.part.about.party
    own = tables.get(hub, Table.without_rows(hub))
    if model.part.about.columns and hub not in tables:
        raise DataError(f"{hub} predicts, but there is no file with its rows, and no table; add one by its name")
    ids = (own if own.rows else next(iter(tables.values()))).keys.tolist()
    if model.method.kind == "horizontal":
        # A party may hold a model that is asked for, and needs no new rows for that.
        tables = {name: Table.without_rows(name) for name in parts} | tables
    there = {name: table for name, table in tables.items() if name not in without}
    if model.at_hand is None:
        yield own, FromStore({}), ids
        return
    with model.at_hand.reach(model.part, parts, there) as carrier:
        yield own, carrier, ids


def score_rows(model: Model, rows: "Mapping[str, Source] | Source") -> Score:
    """The headline figure of the predictions of new rows with labels, as far as there is an answer."""
    by_party = rows if isinstance(rows, Mapping) else {model.part.about.party: rows}
    scores = model.predict(rows)
    about, holders = model.part.about, list(by_party) if model.asks_nobody else [model.part.about.party]
    labels = []
    for name in holders:
        read_as = about if isinstance(rows, Mapping) else by_place(model)
        found = read_new_labels(read_as, by_party[name], read_new(read_as, by_party[name]))
        if found is None:
            raise DataError(f"the rows of {name} have no label column {model.task.label!r} to score by; add it")
        labels.append(found)
    answered = scores.answered
    if not answered.any():
        raise DataError("no row has an answer, so there is nothing to score; see the scores of predict")
    return headline(model.task, metrics(model.task, np.concatenate(labels)[answered], scores.predictions[answered]))


def by_place(model: Model) -> About:
    """How one table is read that says nothing of a party: rows are known by their place, and need no id."""
    return msgspec.structs.replace(model.part.about, id="", data=None)


def _predict_alone(model: Model, rows: Source, notes: list[str], read_as: About) -> Scores:
    """Predictions of a model that has to ask nobody, for rows that are read as this says."""
    if not model.asks_nobody:
        own = [model.part.about.party] if model.part.about.columns else []
        parties = [*own, *model.part.about.peers]
        example = ", ".join(f"{name!r}: ..." for name in parties)
        raise DataError(
            f"{type(model.method).__name__} predicts with several parties, so give the rows of each by its name: "
            f"predict({{{example}}})"
        )
    table = read_new(read_as, rows, notes)
    return model.ask(table, FromStore({}), table.keys.tolist())


def _refuse_strangers(
    model: Model, parts: Mapping[str, Part], rows: Mapping[str, Source], without: Sequence[str]
) -> None:
    """Refuse parties that the model does not know, does not have any more, or whose part is elsewhere."""
    refuse_forgotten(model.part, dict.fromkeys(rows, Path()))
    known = list(dict.fromkeys([*parts, *model.part.about.peers, *forgotten(model.part)]))
    for name in (*rows, *without):
        if name not in known:
            raise PlanError(f"there is no party {name!r} in this model; {closest(name, known, 'The parties are')}")
    lost = [name for name in rows if name not in parts]
    if lost:
        where = (model.at_hand.folder if model.at_hand is not None else model.part.path) or Path()
        raise DataError(
            f"{where} has no part of {lost[0]}, without which nobody can read its rows; bring the folder "
            f"{where / folder_name(lost[0])} back, or leave its rows out: absent= or --absent says what is done then"
        )
