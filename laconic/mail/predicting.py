"""Predictions by mail: new ids, one envelope from each party, and the model that was trained before."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from laconic.core.errors import DataError, PlanError
from laconic.core.log import WireLog
from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.table import Table
from laconic.core.task import Task
from laconic.core.values import Array
from laconic.mail.desk import NEW, Desk
from laconic.mail.hosting import Beside, asking, refuse_peer
from laconic.mail.office import Office
from laconic.mail.place import Place, ids_fingerprint, own_rows
from laconic.mail.sending import Sealed, answer_and_seal, questions_in, refuse_hub
from laconic.privacy.told import take_over, told_of
from laconic.runtime.memory import PartyFolder
from laconic.simulation import on_threads


@dataclass(frozen=True)
class Predicted:
    """Predictions for new ids.

    Attributes:
        ids: in the order asked.
        values: in the shape of `Task.shape`.
        task: what was predicted.
    """

    ids: list[str]
    values: Array
    task: Task

    def save(self, path: Path) -> None:
        """Write one line an id, whole or not at all."""
        part = path.with_name(path.name + ".part")
        named = list(self.task.classes) if self.task.kind == "multiclass" else ["prediction"]
        columns = self.values if self.values.ndim == 2 else self.values[:, None]
        with part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["id", *named])
            writer.writerows(
                [one, *(f"{value:.6g}" for value in row)] for one, row in zip(self.ids, columns, strict=True)
            )
        part.replace(path)


def seal_new(place: Place, ids: list[str], out: Path | None, *, days: float = 30) -> Sealed:
    """Answer what the trained model asks about new ids, and seal the answers.

    Args:
        place: the party's, from `retake_place`.
        ids: whom to predict; all parties use the same list in the same order.
        out: the envelope to write; None only tries.
        days: how long it may be used.
    """
    refuse_hub(place)
    phase, folder = _names(place, ids)
    asked = place.agreement.rehearsal(place.party.data).predictions(place.file.name, phase, NEW)
    if not asked:
        raise PlanError(
            f"what {type(place.agreement.method).__name__} asks to predict depends on rows of {place.agreement.hub}; "
            "wait for its question, and answer it with `laconic answer --predict`"
        )
    return answer_and_seal(place, folder, _with_new_rows(place, ids), asked, out, days)


def answer_new(place: Place, path: Path, ids: list[str], out: Path | None, *, days: float = 30) -> Sealed:
    """Answer the question in an envelope about new ids."""
    folder, party = _names(place, ids)[1], _with_new_rows(place, ids)
    return answer_and_seal(place, folder, party, questions_in(place, path, folder, party), out, days)


def predict(place: Place, inbox: Path, ids: list[str], *, without: tuple[str, ...] = (), days: float = 30) -> Predicted:
    """Predict new ids from the envelopes in a folder; the place is from `retake_place`.

    Raises:
        EnvelopeRefused: an envelope in the folder is not accepted.
        Waiting: answers are missing.
    """
    refuse_peer(place)
    agreement = place.agreement
    model = PartyFolder(place.run / "model")
    if not model.begun:
        raise PlanError("training has not ended; go on with `laconic host` until it shows a result")
    phase, folder = _names(place, ids)
    asker = _with_new_rows(place, ids)
    hub, here = asker, {}
    if agreement.method.server:
        hub = Party(agreement.hub, Table.without_rows(agreement.hub), agreement.plan.seed, model.load().memory)
        here = {agreement.holder: Beside(Desk(agreement, folder, None), asker)}
    office = open_office_for(place, inbox, ids)
    office.take_in()
    with asking(place, office, hub, asker, here, inbox, folder / "hub", without, days) as carrier, on_threads(1):
        log = WireLog()
        log.phase = phase
        hub.turn(phase, 0)
        peers = Peers(agreement.method, hub, carrier, log, agreement.peers)
        values = agreement.method.predict(hub, peers, NEW)
    return Predicted(ids, np.asarray(values), task_of(asker))


def open_office_for(place: Place, inbox: Path, ids: list[str]) -> Office:
    """The office that takes in envelopes about new ids."""
    if not inbox.is_dir():
        raise PlanError(f"there is no folder {inbox} for envelopes; make it, and put in what the others sent")
    return Office(place, inbox, _names(place, ids)[1] / "hub", ids_fingerprint(ids), len(ids))


def _names(place: Place, ids: list[str]) -> tuple[str, Path]:
    """A phase and a folder for these ids alone: what chance a party draws for one list is never used for another."""
    short = ids_fingerprint(ids)[:12]
    return f"predict {short}", place.run / f"predict-{short}"


def _with_new_rows(place: Place, ids: list[str]) -> Party:
    """The party as it is after training, with the rows of these ids, prepared as its training rows were."""
    trained = place.party
    recipe = trained.data.recipe
    source = own_rows(place.agreement.plan, place.file, recipe)
    place_at = {key: at for at, key in enumerate(source.keys.tolist())}
    missing = [one for one in ids if one not in place_at]
    if missing:
        raise DataError(
            f"party {place.file.name!r} has no row for {len(missing):,} of the {len(ids):,} ids to predict, such as "
            f"{missing[0]!r}; add the rows, or leave these ids out of everybody's list"
        )
    order = np.array([place_at[one] for one in ids], dtype=np.int64)
    table = Table(
        source.raw[order],
        source.columns,
        ids=ids,
        task=trained.data.task,
        cuts={NEW: np.arange(len(ids))},
        party=place.file.name,
        recipe=recipe,
    )
    party = Party(place.file.name, table, trained.seed, dict(trained.memory))
    take_over(party, max((trained, *_before(place)), key=told_of))
    return party


def _before(place: Place) -> list[Party]:
    """The party as it was after each list of ids that it has answered for; each knows what was told by then."""
    kept = [PartyFolder(folder / "party") for folder in place.run.glob("predict-*")]
    return [folder.load() for folder in kept if folder.begun]
