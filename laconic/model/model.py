"""A trained model at its hub: predictions by id, from what is stored or by asking, with or without everyone."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np

from laconic.core.errors import DataError, PartyAbsent
from laconic.core.log import WireLog
from laconic.core.method import Method
from laconic.core.peers import Carrier, Peers
from laconic.core.table import Table
from laconic.core.task import Task
from laconic.core.values import Array, Weights
from laconic.model.absent import Abstain, AnyAbsent, Zeros
from laconic.model.asking import collect, cut_name, find
from laconic.model.folder import HEAD, model_folders
from laconic.model.part import Part, load_part
from laconic.model.scores import Scores
from laconic.model.store import FromStore, Store
from laconic.simulation import on_threads

_UNKNOWN = "unknown to the hub"


@dataclass(frozen=True)
class Model:
    """A model as its hub has it.

    Attributes:
        part: the hub's part.
        method: what it was trained with.
        heads: what was fitted for absent parties, by name; grows as it is used.
    """

    part: Part
    method: Method
    heads: dict[str, Weights] = field(default_factory=dict)

    @property
    def task(self) -> Task:
        """What is predicted."""
        task = self.part.about.task
        if task is None:
            raise DataError(f"{self.part.about.party} does not hold the label; load the part of {self.part.about.hub}")
        return task

    @property
    def store(self) -> Store:
        """What the hub keeps."""
        if self.part.store is None:
            raise DataError(
                f"the model of {type(self.method).__name__} keeps no answers, so parties must be asked each time: "
                "give the rows of all parties"
            )
        return self.part.store

    def predict_stored(self, ids: Sequence[str], *, absent: AnyAbsent = Abstain()) -> Scores:  # noqa: B008 (frozen)
        """Predictions from what the hub keeps; nobody is asked."""
        return self.predict_from(self.store, ids, absent=absent)

    def predict_from(self, store: Store, ids: Sequence[str], *, absent: AnyAbsent, rows: str | None = None) -> Scores:
        """Predictions from a store, which may hold more than the hub keeps for good.

        Args:
            absent: what to do where a party has not answered for a person.
            rows: what the method is told that the cut is called; None for a name of these people's own.
        """
        asked, ids = ids, list(dict.fromkeys(ids))
        peers = self.part.about.peers
        patterns = [
            # A hub without columns knows whomever any party knows.
            tuple(name for name in peers if name in have)
            if one in store.own.places or (have and not store.own.columns)
            else None
            for one, have in zip(ids, store.knowing(ids), strict=True)
        ]
        found: dict[tuple[str, ...], tuple[list[int], Array]] = {}
        with on_threads(1):
            for pattern in dict.fromkeys(one for one in patterns if one is not None):
                at = [place for place, one in enumerate(patterns) if one == pattern]
                some = [ids[place] for place in at]
                whole = self._whole(store, some, frozenset(), rows) if pattern == peers else None
                found[pattern] = at, self._part(store, some, pattern, absent) if whole is None else whole
        how = [_UNKNOWN if one is None else "all" if one == peers else absent.word for one in patterns]
        present = tuple(one or () for one in patterns)
        return Scores(tuple(ids), self._together(len(ids), found), present, tuple(how), self.task).take(asked)

    def head_for(self, absent: AnyAbsent, present: tuple[str, ...], store: Store | None = None) -> Weights:
        """What `absent` predicts with when only these parties are there; fitted when first needed."""
        key = head_key(absent, present)
        if key not in self.heads:
            with on_threads(1):
                self.heads[key] = absent.fit(self.task, store or self.store, present, self._whole)
        return self.heads[key]

    def ask(
        self,
        rows: Table,
        carrier: Carrier,
        ids: Sequence[str],
        *,
        absent: AnyAbsent = Zeros(),  # noqa: B008 (frozen)
        log: WireLog | None = None,
        name: str | None = None,
        deadline: float | None = None,
    ) -> Scores:
        """Predictions made by asking the parties.

        Args:
            rows: the hub's own rows.
            carrier: how to reach the others.
            ids: whom to predict.
            absent: what to do about a party that does not answer, or does not know a person.
            log: where to write what crossed.
            name: what to call the cut of these people; None for a name of their own.
            deadline: seconds to wait for each answer.
        """
        asked, ids = ids, list(dict.fromkeys(ids))
        hub = self.part.party(rows)
        if self.part.about.steps is None:
            return self._direct(rows, carrier, ids, log or WireLog(), name, deadline).take(asked)
        hub.turn("final", 0)
        steps = self.part.about.steps
        with on_threads(1):
            answers = collect(self.method, steps, hub, carrier, ids, log=log, rows=name, deadline=deadline)
        kept = {} if self.part.store is None else self.part.store.answers
        forms = {one: kept[one].take(()) for one in self.part.about.peers if one in kept}
        store = Store(rows, np.empty(0), forms | answers)
        return self.predict_from(store, ids, absent=absent, rows=name).take(asked)

    def _direct(
        self, rows: Table, carrier: Carrier, ids: Sequence[str], log: WireLog, name: str | None, deadline: float | None
    ) -> Scores:
        """Let the method ask as it pleases: everybody must be there and know everyone."""
        hub, some = self.part.party(rows), list(ids)
        cut = name or cut_name(some)
        peers = Peers(self.method, hub, carrier, log, carrier.names, deadline=deadline)
        with on_threads(1):
            if self.method.kind == "vertical":
                for party, mask in find(peers, some, cut).items():
                    if not mask.all():
                        first = some[int((~mask).argmax())]
                        raise DataError(
                            f"{party} does not know {int((~mask).sum())} of {len(ids)} people, such as {first!r}, and "
                            f"{type(self.method).__name__} cannot predict without; leave them out"
                        )
            if rows.rows:
                hub.data = hub.data.with_cut(cut, _places(hub.data, some))
            log.phase = "final"
            hub.turn("final", 0)
            predictions = self.method.predict(hub, peers, cut)
        present = (self.part.about.peers,) * len(ids)
        return Scores(tuple(ids), predictions, present, ("all",) * len(ids), self.task)

    def _part(self, store: Store, ids: Sequence[str], present: tuple[str, ...], absent: AnyAbsent) -> Array:
        weights = self.head_for(absent, present) if absent.fits else {}
        return absent.predict(self.task, store, present, self._whole, weights, ids)

    def _together(self, rows: int, found: dict[tuple[str, ...], tuple[list[int], Array]]) -> Array:
        """Predictions of all groups of people, in the order asked; one group alone stays as it is, to the bit."""
        for at, predictions in found.values():
            if len(at) == rows:
                return predictions
        together = np.full(self.task.shape(rows), np.nan)
        for at, predictions in found.values():
            together[at] = predictions
        return together

    def _whole(self, store: Store, ids: Sequence[str], zeros: frozenset[str], rows: str | None = None) -> Array:
        """The model of all parties, with zeros for some."""
        peers = self.part.about.peers
        lacking = [name for name in peers if name not in store.answers]
        if lacking:
            raise PartyAbsent(tuple(lacking), "predict")
        answers = {
            name: store.answers[name].zeros(len(ids)) if name in zeros else store.answers[name].take(ids)
            for name in peers
        }
        head = self.part.about.head
        own = store.own if store.own.columns else _nobody(store.own, ids)
        if head is not None:
            filled = {name: replace(one, ids=tuple(ids)) for name, one in answers.items()}
            weights = self.heads[head_key(head, peers)]
            return head.predict(self.task, Store(own, store.y, filled), peers, self._whole, weights, ids)
        cut = rows or cut_name(ids)
        hub = self.part.party(own.with_cut(cut, _places(own, ids)))
        hub.turn("final", 0)
        carrier = FromStore(answers)
        return self.method.predict(hub, Peers(self.method, hub, carrier, WireLog(), carrier.names), cut)


def load_model(path: Path | str, *, method: type[Method] | None = None) -> Model:
    """The model in a folder: the hub's own, or one that holds a folder for each party.

    Args:
        path: where it was saved.
        method: the class of its method, for one that is not part of this package.

    Raises:
        DataError: there is none, or it cannot be read; says which file, and what to do.
    """
    part = load_part(hub_folder(Path(path)))
    if part.about.party != part.about.hub:
        raise DataError(
            f"{path} is the part of {part.about.party}, which only answers questions; load that of {part.about.hub}"
        )
    return Model(part, part.method(method), dict(part.heads))


def hub_folder(path: Path) -> Path:
    """The hub's folder of a model: the path itself, or the one within it."""
    if (path / HEAD).is_file() or not path.is_dir():
        return path
    parts = model_folders(path)
    hubs = [one for one in parts if (one / "heads.json").is_file()]
    if len(hubs) == 1:
        return hubs[0]
    raise DataError(
        f"{path} holds {len(parts)} parts of models, {len(hubs)} of them a hub's; name the hub's own folder"
    )


def head_key(absent: AnyAbsent, present: Sequence[str]) -> str:
    """The name of what was fitted for absent parties."""
    return msgspec.json.encode([absent, sorted(present) if absent.by_pattern else []]).decode()


def _places(table: Table, ids: Sequence[str]) -> Array:
    unknown = [one for one in ids if one not in table.places]
    if unknown:
        raise DataError(
            f"{table.party} does not know {len(unknown)} of {len(ids)} people, such as {unknown[0]!r}; leave them out "
            "or add their rows"
        )
    return np.array([table.places[one] for one in ids], dtype=np.int64)


def _nobody(own: Table, ids: Sequence[str]) -> Table:
    """Rows without columns, for a hub that has only labels."""
    return Table(np.empty((len(ids), 0)), (), ids=list(ids), task=own.task, party=own.party, recipe=own.recipe)
