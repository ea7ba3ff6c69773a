"""`laconic home`, `predict`, `add` and `forget`: using and changing a saved model."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from laconic.cli.options import FILE, FOLDER, ManyFiles, model_argument, show, show_notes
from laconic.errors import DataError, PlanError, closest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laconic.data.schema import OwnData
    from laconic.inference.absent import AnyAbsent, Store
    from laconic.inference.bundle import About, Part
    from laconic.inference.merge import Difference
    from laconic.inference.predict import Model, Scores
    from laconic.inference.reasons import Reasons
    from laconic.tables.table import Table


WAYS = ("best", "zeros", "gaps", "refit", "solo", "abstain")
absent_option = click.option(
    "--absent",
    type=click.Choice(WAYS),
    default="best",
    show_default=True,
    help="What to do if a party is absent; best is what the model's card measured best.",
)
_ACCEPT = click.option("--accept", is_flag=True, help="Change the model even if that makes it worse.")
_WAIT = click.option(
    "--wait", default=60.0, show_default=True, help="With --site: seconds to wait for parties to join."
)
_DEADLINE = click.option(
    "--deadline", default=0.0, help="With --site: seconds that one question may take; 0: no limit."
)
_FILES = click.option("--files", multiple=True, metavar="FILE...", help="New rows, one CSV or Parquet file per party.")


@click.command(short_help="Take the model that came home into a folder.")
@click.argument("source", type=click.Path(path_type=Path, exists=True), metavar="SITE|PLAN.toml")
@click.option("--run", "run", metavar="NAME", help="Online: the run. [the last with a model]")
@click.option("--party", type=FILE, metavar="FILE", help="By mail: your own party.toml.")
@click.option("--keys", type=FOLDER, help="By mail: your key ring. [keys, beside your party file]")
@click.option("-o", "--output", type=FOLDER, default=Path("model"), show_default=True, help="Where it goes.")
@click.option("--replace", is_flag=True, help="Replace a model that is there.")
def home(source: Path, run: str | None, party: Path | None, keys: Path | None, output: Path, replace: bool) -> None:
    """Put the final model of a horizontal run into a folder of your own, once the server's signature is checked.

    From then on you predict by yourself; nobody is asked.

    \b
    Examples:
      laconic home north                                    from the site of a party
      laconic home plan.toml --party north.toml             after the last envelope
      laconic predict model/north --files next.csv
    """
    from laconic.inference.save import take_from_mail, take_from_site

    if source.is_dir():
        from laconic.deploy.party_files import open_site

        folder = take_from_site(open_site(source), output, run, replace_old=replace)
    elif party is None:
        raise PlanError("by mail, name your own party file too: laconic home plan.toml --party north.toml")
    else:
        from laconic.deploy.party_files import read_party
        from laconic.deploy.transports.envelopes.keys import open_ring

        ring = open_ring(keys or party.absolute().parent / "keys", read_party(party).name)
        folder = take_from_mail(source, party, ring, output, replace_old=replace)
    click.echo(f"{folder} predicts by itself: laconic predict {folder} --files next.csv")


@click.command(cls=ManyFiles, short_help="Predict new rows with a saved model.")
@model_argument
@_FILES
@absent_option
@click.option("--without", multiple=True, metavar="PARTY", help="Treat this party as absent; may be repeated.")
@click.option("--reasons", is_flag=True, help="Also the share of each party, and of each column of the hub.")
@click.option("--out", type=FILE, metavar="FILE", help="CSV file for the scores.")
def predict(
    folder: Path, files: tuple[str, ...], absent: str, without: tuple[str, ...], reasons: bool, out: Path | None
) -> None:
    """Predict rows by their ids: new ones from files, or without files those that the hub keeps answers about.

    \b
    Examples:
      laconic run FedOnce --files bank.csv shop.csv --id customer --label churned --model churn
      laconic predict churn --files bank-may.csv shop-may.csv --out scores.csv
      laconic predict churn --files bank-may.csv --absent solo
      laconic predict churn --without shop --absent zeros
      laconic run FedAvg --files north.csv south.csv --label diagnosis --model wards
      laconic predict wards --files may.csv
      laconic predict churn --files bank-may.csv shop-may.csv --reasons
    A file belongs to the party whose name it begins with: bank-may.csv is the bank's. Where parties have the same
    columns, one file of any name will do. With --reasons, `base` and all shares of a line add up to what is predicted:
    the number, the probability of the second of two classes, or of the likeliest of several. Nobody is asked for them,
    but who reads them learns how far another party's numbers moved each prediction.
    """
    from laconic.atomic_files import refuse_unwritable

    refuse_unwritable(out)
    named = _from_files(folder, files, absent, without, reasons) if files else _stored(folder, absent, without, reasons)
    _write(*named, out)


@click.command(short_help="Write a saved model as ONNX, a file per party.")
@model_argument
@click.option("--party", metavar="NAME", help="Write this party's file alone.")
@click.option("-o", "--output", type=click.Path(path_type=Path, file_okay=False), default="onnx", metavar="DIRECTORY",
              show_default=True, help="Where the files go.")  # fmt: skip
def export(folder: Path, party: str | None, output: Path) -> None:
    """Write what each party computes as ONNX: the hub's model, and every other party's encoder.

    Each file is run before it is written, and must say what the model says, to 1e-5. Rows go in prepared: the file's
    metadata says how. Needs the extra onnx.

    \b
    Examples:
      laconic export churn
      laconic export churn/shop -o shop-onnx
    """
    from laconic.inference.export import export_model

    for name, file in export_model(folder, output, party=party).items():
        show(f"{file}: what {name} computes")


def way_called(word: str) -> "AnyAbsent":
    """What to do about absent parties, by the word for it."""
    from laconic.inference.absent import WAYS as KNOWN
    from laconic.inference.absent import Measured

    return next(one for one in (Measured(), *KNOWN) if one.word == word)


def files_by_party(files: tuple[str, ...], parties: list[str]) -> dict[str, Path]:
    """Each file under the party whose name it begins with; the longest such name wins."""
    found: dict[str, Path] = {}
    for file in map(Path, files):
        fitting = [name for name in parties if file.name.startswith(name)]
        if not fitting:
            raise DataError(f"whose rows are in {file}? Begin its name with a party's: {', '.join(parties)}")
        name = max(fitting, key=len)
        if name in found:
            raise DataError(f"{found[name]} and {file} would both be {name}'s; give one file per party")
        found[name] = file
    return found


def read_new_files(parts: "Mapping[str, Part]", files: dict[str, Path]) -> "dict[str, Table]":
    """The new rows of each party that a file is given for; says what was decided when reading."""
    from laconic.inference.local_transport import read_new

    notes: list[str] = []
    for name, path in files.items():
        if name not in parts:
            raise DataError(f"{path} would be party {name!r}, but the model's parties are {', '.join(parts)}")
    tables = {name: read_new(parts[name].about, path, notes) for name, path in files.items()}
    show_notes(notes)
    return tables


def _from_files(
    folder: Path, files: tuple[str, ...], absent: str, without: tuple[str, ...], reasons: bool
) -> "tuple[Scores, Reasons | None]":
    from laconic.inference.local_transport import parts_of
    from laconic.inference.merge import forgotten, rows_due
    from laconic.inference.new_rows import reach_rows
    from laconic.inference.predict import load_model
    from laconic.inference.reasons import refuse_without_answers

    model = load_model(folder)
    for name, count in rows_due(model.part).items():
        show_notes([f"{count:,} rows of {name} are to be erased from this model; train it again without them"])
    hub, parts = model.part.about.party, parts_of(folder)
    if model.method.kind == "horizontal" and len(files) == 1:
        # All parties have the same columns, and the hub has the whole model: whose rows they are does not matter.
        named = {hub: Path(files[0])}
    else:
        named = files_by_party(files, list(dict.fromkeys([*parts, *model.part.about.peers, *forgotten(model.part)])))
    notes: list[str] = []
    try:
        if not reasons:
            return model.predict(named, notes, absent=way_called(absent), without=without), None
        refuse_without_answers(model)
        with reach_rows(model, named, notes, without) as (own, carrier, ids):
            store = model.store_of(own, carrier, ids, note=True)
    finally:
        show_notes(notes)
    return _explained(model, store, ids, absent)


def _explained(model: "Model", store: "Store", ids: list[str], absent: str) -> "tuple[Scores, Reasons]":
    """Scores from a store, and their reasons."""
    from laconic.inference.reasons import explain

    ids, way = list(dict.fromkeys(ids)), way_called(absent)
    return model.predict_from(store, ids, absent=way), explain(model, ids, store=store, absent=way)


def _stored(folder: Path, absent: str, without: tuple[str, ...], reasons: bool) -> "tuple[Scores, Reasons | None]":
    from laconic.inference.predict import load_model

    model = load_model(folder)
    _refuse_strangers(without, list(model.part.about.peers))
    store = model.store
    for name in without:
        store = store.as_if_absent(name)
    if reasons:
        return _explained(model, store, store.people, absent)
    return model.predict_from(store, store.people, absent=way_called(absent)), None


def _refuse_strangers(named: tuple[str, ...], known: list[str]) -> None:
    for name in named:
        if name not in known:
            raise PlanError(f"there is no party {name!r} in this model; {closest(name, known, 'The parties are')}")


def _write(scores: "Scores", reasons: "Reasons | None", out: Path | None) -> None:
    from collections import Counter

    from laconic.atomic_files import write_whole

    frame = scores.to_frame()
    if reasons is not None:
        frame = frame.join(reasons.to_frame().drop(columns="id"))
    text = frame.to_csv(index=False, lineterminator="\n")
    if out is None:
        click.echo(text, nl=False)
    else:
        write_whole(out, text.encode())
    for how, count in Counter(scores.how).most_common():
        click.echo(f"{count:,} of {len(scores.ids):,} rows: {_WORDS.get(how, how)}", err=True)
    if reasons is not None:
        click.echo(f"Shares of {reasons.about}; half of them have a standard error of {reasons.error:.2g} or less. "
                   "Who reads them learns how far each party's numbers moved a prediction.", err=True)  # fmt: skip


_WORDS = {
    "all": "predicted with everybody there",
    "zeros": "a party was absent and counted as zeros",
    "gaps": "a party was absent and counted as a gap, which the model has learnt from",
    "refit": "a party was absent, predicted by a head refitted without it",
    "solo": "a party was absent, predicted by the hub alone",
    "abstain": "a party was absent, no answer",
}


@click.command(cls=ManyFiles, short_help="Add rows or a party to a saved model.")
@model_argument
@_FILES
@click.option("--party", metavar="NAME=FILE", help="A new party and its rows, or its party file; only it is asked.")
@click.option("--site", type=FOLDER, help="Between machines: the server's site; --party is then a NAME alone.")
@click.option("--plan", type=FILE, metavar="PLAN.toml", help="With --site: the plan that names who joins.")
@_WAIT
@_DEADLINE
@_ACCEPT
def add(
    folder: Path,
    files: tuple[str, ...],
    party: str | None,
    site: Path | None,
    plan: Path | None,
    wait: float,
    deadline: float,
    accept: bool,
) -> None:
    """Add new rows, or a new party, to a saved model; parties send only what they have not sent before.

    Rows with a label at the hub become training rows and the same kind of model is fitted again; rows without can be
    predicted from then on without asking. A change that makes the model worse needs --accept.

    \b
    Examples:
      laconic add churn --files bank-may.csv shop-may.csv
      laconic add churn --party insurer=insurer.csv
    A model of Analytic takes labelled rows of any party, and parties with rows of their own: only they are asked.
      laconic add wards --files north-may.csv
      laconic add wards --party west=west.csv
    Between machines, a hospital that runs `laconic join` joins by one upload; it and all who are there get the model.
      laconic add model/server --site sites/registry --party west --plan plan-with-west.toml
    """
    from laconic.inference.predict import load_model
    from laconic.inference.update import save_grown
    from laconic.report.tables import show_card

    if site is not None:
        if files or not party or "=" in party:
            raise PlanError("with --site, name who joins by --party NAME alone: its rows stay at its own machine")
        _change_between(site, folder, party, plan, wait, deadline, accept=accept)
        return
    if plan is not None:
        raise PlanError("--plan goes with --site, which says where the server's site is")
    if bool(files) == bool(party):
        raise PlanError("give --files with new rows, or --party NAME=FILE for a new party, one of the two")
    model = load_model(folder)
    joined = None
    if party:
        model, sent, joined = _add_party(model, party)
    else:
        model, sent = _add_rows(model, folder, files)
    card = save_grown(model, joined, accept=accept)
    for name, count in sent.people.items():
        whole = sent.whole[name]
        click.echo(f"{name} sent answers about {count:,} people: {sent.bytes.get(name, 0):,} bytes crossed; "
                   f"all that is kept of it is {whole:,}.")  # fmt: skip
        _show_price(folder, name)
    show(show_card(card))


def _change_between(
    site: Path, folder: Path, party: str | None, plan: Path | None, wait: float, deadline: float, *, accept: bool
) -> None:
    """Let a party join between machines, or with None bring the model as it is now to those who are in it."""
    from laconic.deploy.coordinator import Growth
    from laconic.deploy.party_files import open_site
    from laconic.deploy.transports.flare.operating import host_change, refuse_no_hub
    from laconic.inference.merge import forgotten
    from laconic.inference.predict import load_model
    from laconic.inference.update import change_between, save_grown
    from laconic.plan.text import read_plan_file
    from laconic.report.tables import show_card

    opened, part = open_site(site), load_model(folder).part
    refuse_no_hub(opened)
    joins = () if party is None else (party,)
    growth = Growth(joins=joins, without=tuple(name for name in forgotten(part) if name not in joins))
    model, found = change_between(
        opened,
        part,
        growth,
        lambda run: host_change(opened, run, partial(click.echo, err=True), wait=wait, deadline=deadline),
        None if plan is None else read_plan_file(plan),
    )
    card = save_grown(model, accept=accept)
    for name in joins:
        sent = sum(one.bytes_up + one.bytes_down for one in found.wire if one.party == name)
        click.echo(f"{name} is in the model: {sent:,} bytes crossed. Nobody else was asked what its rows add.")
    got = " and ".join(found.data["scored"]) or "nobody"
    click.echo(f"The model came home to {got}; `laconic home SITE` puts it into a folder there.")
    show(show_card(card))


def _show_price(folder: Path, name: str) -> None:
    """What a party's noisy releases for this model cost by now; nothing where it released some without noise."""
    from laconic.inference.local_transport import parts_of
    from laconic.privacy.accounting import price

    part = parts_of(folder).get(name) if folder.is_dir() else None
    noisy = (
        [] if part is None else [one for one in part.ledger.entries if one.noise is not None and one.phase != "align"]
    )
    if part is None or not noisy:
        return
    paid, times = price({name: part.ledger}, _DELTA, "disjoint"), sum(one.times for one in noisy)
    click.echo(f"{name} has made {times:,} noisy releases for this model: a row that was in all of them costs epsilon "
               f"{paid.epsilon:.2f}, delta {_DELTA:g}.")  # fmt: skip


_DELTA = 1e-5


def _add_rows(model: "Model", folder: Path, files: tuple[str, ...]) -> "tuple[Model, Difference]":
    from laconic.core.capabilities import Mergeable
    from laconic.inference.local_transport import parts_of, reach_parts, read_new_labels
    from laconic.inference.merge import forgotten, refuse_forgotten
    from laconic.inference.update import add_more, add_rows, kept_answers

    parts = parts_of(folder)
    named = files_by_party(files, list(dict.fromkeys([*parts, *forgotten(model.part)])))
    refuse_forgotten(model.part, named)
    if isinstance(model.method, Mergeable):
        return add_more(model, {name: _labelled(parts[name].about, path) for name, path in named.items()})
    about = model.part.about
    kept_answers(model)
    if about.party not in named:
        raise DataError(f"{about.party} holds the label and the model: add a file with its own new rows")
    tables = read_new_files(parts, named)
    labels = read_new_labels(about, named[about.party], tables[about.party])
    with reach_parts(model.part, parts, tables) as carrier:
        return add_rows(model, tables[about.party], labels, carrier)


def _add_party(model: "Model", spelt: str) -> "tuple[Model, Difference, Part]":
    from laconic.core.capabilities import Mergeable
    from laconic.inference.update import add_party

    name, equals, path = spelt.partition("=")
    if not name or not equals or not path:
        raise PlanError(f"--party needs NAME=FILE, such as insurer=insurer.csv, not {spelt!r}")
    if isinstance(model.method, Mergeable):
        about = _about_new(model.part.about, name, Path(path))
        rows = _labelled(about, Path(path if about.data is None else about.data.source or path))
        return add_party(model, name, rows, data=about.data)
    table, data = _table(model.part.about, name, Path(path))
    return add_party(model, name, table, data=data)


def _labelled(about: "About", path: Path) -> "Table":
    """A party's rows with labels, as the model reads them; says what was decided when reading."""
    from laconic.inference.merge import read_labelled

    notes: list[str] = []
    table = read_labelled(about, path, notes)
    show_notes(notes)
    return table


def _about_new(about: "About", party: str, path: Path) -> "About":
    """What a new party with rows of its own has to know to read its file: as the server, or as its party file says."""
    import msgspec

    from laconic.deploy.party_files import read_party

    data = read_party(path).own_data if path.suffix == ".toml" else about.data
    return msgspec.structs.replace(about, party=party, data=data)


def _table(about: "About", party: str, path: Path) -> "tuple[Table, OwnData | None]":
    """A new party's rows, and how its own file, or else the hub's, says that they are read."""
    import msgspec

    from laconic.data.readers.source_table import read_own
    from laconic.data.schema import OwnData
    from laconic.deploy.party_files import read_party

    if path.suffix == ".toml":
        data = read_party(path).own_data
    elif about.data is not None:
        data = msgspec.structs.replace(about.data, source=str(path))
    else:
        data = OwnData(source=str(path), key=about.id)
    read = read_own(party, data)
    show_notes(list(read.notes))
    return read.table, None if path.suffix != ".toml" and about.data is None else data


@click.command(short_help="Delete what a saved model keeps of a party.")
@click.argument("party")
@model_argument
@click.option("--rows", "erased", type=FILE, metavar="FILE", help="Forget only these rows of the party, with labels.")
@click.option("--site", type=FOLDER, help="Between machines: the server's site, from which others get the new model.")
@_WAIT
@_DEADLINE
@_ACCEPT
def forget(
    party: str, folder: Path, erased: Path | None, site: Path | None, wait: float, deadline: float, accept: bool
) -> None:
    """Delete a party's stored answers and all that the hub learnt from them, and refit without it; nobody is contacted.

    What was deleted is written to forgotten.jsonl in the hub's folder, with the digests of all files before and after.

    With --rows only these rows go, where the method can take them out exactly (Analytic). Their party sends what they
    had added, which shows them to the server: of one row, its features and its label as they are. Of other horizontal
    methods the record says that these rows are due, and the next training must leave them out.

    \b
    Examples:
      laconic forget shop churn
      laconic forget north wards --rows north-erased.csv
    Between machines, what the server's runs keep of the party is deleted too, and all others who are there get the
    new model. Give the command again to bring it to those who were not there.
      laconic forget west model/server --site sites/registry
    """
    from laconic.inference.local_transport import parts_of
    from laconic.inference.merge import RECORD, erase
    from laconic.inference.merge import forget as leave
    from laconic.inference.predict import hub_folder
    from laconic.report.tables import show_card

    if site is not None:
        if erased is not None:
            raise PlanError("--rows needs the party's own folder at hand, which no server has; leave out one of both")
        _forget_between(site, folder, party, wait, deadline, accept=accept)
        return
    if erased is None:
        record, card = leave(folder, party, accept=accept)
    else:
        parts = parts_of(folder)
        _refuse_strangers((party,), list(parts))
        record, card = erase(folder, party, _labelled(parts[party].about, erased))
    gone = [name for name in record.before if name not in record.after]
    files = f" ({', '.join(gone)})" if gone else ""
    if record.due:
        click.echo(f"{record.people:,} rows of {party} are on record to be erased. Nobody was asked, and the model is "
                   "as it was: its method cannot take single rows out.")  # fmt: skip
    elif record.erased:
        click.echo(f"{record.people:,} rows of {party} are taken out; the server has seen them, summed, for this.")
    else:
        click.echo(f"{party} is forgotten: what is kept about its {record.people:,} people is deleted{files}.")
    click.echo(f"What may stay: {record.stays}.")
    click.echo(f"The record is in {hub_folder(folder) / RECORD}.")
    show(show_card(card))


def _forget_between(site: Path, folder: Path, party: str, wait: float, deadline: float, *, accept: bool) -> None:
    """Forget a party at the server, in its runs too, and bring the new model to the others."""
    from laconic.deploy.party_files import open_site
    from laconic.deploy.transports.flare.operating import refuse_no_hub
    from laconic.inference.merge import forget as leave
    from laconic.inference.merge import forgotten
    from laconic.inference.predict import hub_folder, load_model
    from laconic.inference.update import forget_runs

    opened = open_site(site)
    refuse_no_hub(opened)
    if party not in forgotten(load_model(folder).part):
        record, _ = leave(folder, party, accept=accept)
        click.echo(f"{party} is forgotten. What may stay: {record.stays}.")
    for run in forget_runs(opened, load_model(folder).part, party):
        click.echo(f"Deleted what run {run} at the server kept of all parties' answers; its result stays.")
    click.echo(f"The record is in {hub_folder(folder) / 'forgotten.jsonl'}.")
    _change_between(site, folder, None, None, wait, deadline, accept=accept)
