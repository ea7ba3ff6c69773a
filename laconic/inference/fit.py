"""`fit`: from a method and a federation to a model that predicts, in one call."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from laconic.align.alignment import Align
from laconic.core.ledger import Ledger
from laconic.core.method import Method
from laconic.core.peers import Carrier
from laconic.data.federation import Federation
from laconic.data.schema import OwnData
from laconic.deploy.execute import FittedRun, execute_and_keep, own_data_of, train, with_price
from laconic.deploy.result import Result
from laconic.deploy.transports.inprocess import open_calls
from laconic.errors import PlanError
from laconic.inference.bundle import About, Card, Part
from laconic.inference.bundle_files import PartState
from laconic.inference.local_transport import SavedParts
from laconic.inference.predict import Model
from laconic.inference.save import abouts_of, probe, save_model, store_at_hand
from laconic.learn.device import Device
from laconic.methods.registry import find_method
from laconic.plan.plan import Budget, DataPlan, Plan, keep_budget
from laconic.privacy.row_releases import take_over
from laconic.tables.table import Table
from laconic.threads import limit_threads
from laconic.values import Listener


@limit_threads()
def fit(
    method: Method | str | Plan,
    federation: Federation | None = None,
    *,
    seed: int = 0,
    budget: Budget | None = None,
    align: Align | None = None,
    look_every: int | None = None,
    device: Device | None = None,
    listener: Listener | None = None,
) -> Model:
    """Fit a method to a federation, score it on held-out rows, and hand back the model.

    Args:
        method: its settings, or its name for the settings it comes with. A plan brings its own rows and limits.
        federation: what `laconic.federation` or `laconic.deal` gives; None for a plan.
        seed: for all randomness, including which rows are held out.
        budget: an epsilon to keep, and how many bytes may cross; None for neither.
        align: how rows are matched, where that is still to be done; None for exact ids.
        look_every: score the model every so many turns of fitting.
        device: what torch learns on; None for the best there is.
        listener: called with progress.

    Example:
        >>> import laconic
        >>> model = laconic.fit("Linear", laconic.deal(laconic.load("breast_cancer"), laconic.Equal(parties=3)))
        >>> model.score().metric
        'accuracy'
    """
    if isinstance(method, Plan):
        if federation is not None:
            raise PlanError("a plan names its own rows; give either a plan, or a method and a federation")
        return as_model(execute_and_keep(method, listener=listener), method.budget, own_data_of(method))
    settings = find_method(method)() if isinstance(method, str) else method
    if not isinstance(federation, Federation):
        raise TypeError(
            "give the rows to fit to: laconic.federation({'bank': table, 'shop': table}, id=..., label=...), not "
            f"{'None' if federation is None else f'a {type(federation).__name__}'}"
        )
    limits = budget or Budget()
    if budget is not None and isinstance(settings, Method):
        plan = Plan(method=settings, data=DataPlan(name=federation.name), budget=limits, look_every=look_every)
        settings = keep_budget(plan, federation)
    run = train(
        settings,
        federation,
        seed=seed,
        align=align,
        max_bytes=math.inf if limits.max_bytes is None else limits.max_bytes,
        look_every=look_every,
        device=device,
        listener=listener,
    )
    return as_model(run, limits, {})


def as_model(run: FittedRun, budget: Budget, data: Mapping[str, OwnData]) -> Model:
    """The model that a run left at its parties, in this process; `data` is what party files say of their data."""
    asked, steps = probe(run)
    parties = FittedParts(run, abouts_of(run, asked, steps, run.federation.id, data), budget, data)
    hub = run.hub
    part = Part(parties.abouts[hub.name], hub.memory, hub.ledger, store_at_hand(run), used=parties.used)
    return Model(part, run.method, {}, parties)


@dataclass(frozen=True)
class FittedParts:
    """The parties of a run in this process, each with its part; after saving, the parts in the folder.

    Attributes:
        run: the parties with their memories, and the record.
        abouts: what each party's part says of itself.
        budget: by which its price is worked out.
        data: what party files say of each party's data.
        used: when parts were used; every use draws other randomness.
        saved: the folder they are in since, if they were saved.
    """

    run: FittedRun
    abouts: Mapping[str, About]
    budget: Budget
    data: Mapping[str, OwnData]
    used: list[str] = field(default_factory=list)
    saved: list[Path] = field(default_factory=list)

    @property
    def folder(self) -> Path | None:
        """The folder they are in; None if they were not saved."""
        return self.saved[-1] if self.saved else None

    @property
    def result(self) -> Result | None:
        """The record of the run, with all that was released in this process since."""
        return with_price(self.run.to_date(), self.run.method.kind, self.budget)

    def parts(self) -> dict[str, Part]:
        """Every party's part, as it is now."""
        if self.saved:
            return SavedParts(self.saved[-1]).parts()
        return {
            party.name: Part(self.abouts[party.name], party.memory, party.ledger, used=self.used)
            for party in (self.run.hub, *self.run.others)
        }

    @contextmanager
    def reach(self, hub: Part, parts: Mapping[str, Part], tables: Mapping[str, Table]) -> Iterator[Carrier]:
        """Reach the parties that have rows, in this process; what they release is kept."""
        asked = {
            one.name: replace(parts[one.name], ledger=Ledger()).party(tables[one.name])
            for one in self.run.others
            if one.name in tables
        }
        try:
            with open_calls(tuple(asked.values())) as carrier:
                yield carrier
        finally:
            self.used.append(datetime.now(UTC).isoformat(timespec="seconds"))
            for party in self.run.others:
                if party.name in asked:
                    take_over(party, asked[party.name])
                    for entry in asked[party.name].ledger.entries:
                        party.ledger.write(entry)

    def save(self, folder: Path, *, keep: bool, replace_old: bool) -> Card:
        """Write a folder per party, with how often each was used here."""
        if self.saved:
            SavedParts(self.saved[-1]).save(folder, keep=keep, replace_old=replace_old)
        card = save_model(
            self.run, folder, id=self.run.federation.id, keep=keep, replace_old=replace_old, data=self.data or None
        )
        for part in SavedParts(folder).parts().values():
            for _ in self.used if part.path is not None else ():
                PartState(part.path or folder).count_use()
        self.saved.append(folder)
        return card
