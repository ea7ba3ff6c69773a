"""The tables of the VIM study, next to the paper's figures, and the lines of its figures 2 and 3."""

from pathlib import Path
from statistics import fmean, stdev

from studies.harness import Record, markdown, read_records, write_whole
from studies.vim_choice import CHOSEN, words_for
from studies.vim_pictures import lines

_PAPER = {"VimAdmm": "96.22 / 96.60 / 96.82", "VimSgd": "95.04 / 96.01 / 96.43", "Vafl": "91.07 / 94.36 / 95.59"}
_TABLE_1 = {"all": 97.12, "most 50%": 96.58, "least 50%": 78.11, "most 20%": 88.72, "least 20%": 29.11}


def write_report(results: Path, out: Path) -> None:
    """Write `tables.md` of all that has been run so far, and the pictures of the noisy runs."""
    records = read_records(results)
    parts = {part: [one for one in records if one["key"]["part"] == part] for part in _TABLES}
    write_whole(out / "tables.md", "\n".join(_TABLES[part](found) for part, found in parts.items() if found))
    _draw("noisy", "MNIST, one noisy party", parts["noisy"], out)
    for data in ("mnist", "fashion_mnist"):
        _draw(
            f"clean_{data}", f"{data}, nobody noisy", [one for one in parts["clean"] if one["key"]["data"] == data], out
        )
    _draw_private(parts["privacy"], out)


def _draw(name: str, words: str, records: list[Record], out: Path) -> None:
    """Accuracy by epoch, by rounds and by bytes, the mean over seeds."""
    curves = {method: _mean_curve(same) for method, same in _by_method(records).items()}
    if not curves:
        return
    for across, place in (("epochs", 0), ("rounds", 1), ("MB", 2)):
        series = {method: [(point[place], point[3]) for point in curve] for method, curve in curves.items()}
        lines(out / f"{name}_by_{across.casefold()}.svg", f"{words}: accuracy by {across}", across, series)


def _mean_curve(same: list[Record]) -> list[tuple[float, float, float, float]]:
    """Epoch, rounds, megabytes and score, for each epoch."""
    one = same[0]
    scores = _means(same)
    return [
        (at + 1.0, one["rounds"] * (at + 1) / len(scores), one["bytes"][at] / 1e6, score)
        for at, score in enumerate(scores)
    ]


def _by_method(records: list[Record]) -> dict[str, list[Record]]:
    """Runs that differ by seed alone, those that did not diverge."""
    found: dict[str, list[Record]] = {}
    for one in records:
        if "scores" in one:
            found.setdefault(one["key"]["method"], []).append(one)
    return found


def _means(same: list[Record]) -> list[float]:
    return [fmean(scores) for scores in zip(*(one["scores"] for one in same), strict=True)]


def _spreads(same: list[Record], places: list[int], digits: int, times: float = 1.0) -> str:
    """The standard deviation over seeds at some epochs; nothing to say of one seed."""
    if len(same) < 2:
        return "-"
    return " / ".join(f"{times * stdev(one['scores'][at] for one in same):.{digits}f}" for at in places)


def _draw_private(records: list[Record], out: Path) -> None:
    """Where each row is noised once, what epsilon buys; next to it, what noise alone scores, and no upload at all."""
    once = [one for one in records if one["key"]["case"].startswith("rows once, random directions") and one["epsilon"]]
    once = [one for one in once if not one["key"]["case"].endswith("too")]
    nulls = {one["key"]["case"]: one["accuracy"] for one in records if one["key"]["null"] == "yes"}
    series: dict[str, list[tuple[float, float]]] = {}
    for one in sorted(once, key=lambda one: float(one["epsilon"])):
        method, epsilon = one["key"]["method"], one["epsilon"]
        series.setdefault(method, []).append((epsilon, one["accuracy"]))
        series.setdefault(f"{method}, noise alone", []).append((epsilon, nulls[one["alone"]]))
        if method == "VimSgd":
            series.setdefault("no upload", []).append((epsilon, nulls["no upload, labels kept"]))
    if series:
        title = "MNIST: accuracy by proven epsilon, one row at one party"
        lines(out / "accuracy_by_epsilon.svg", title, "epsilon", series)


def _noisy(records: list[Record]) -> str:
    rows = []
    methods = _by_method(records)
    bar = min(max(_means(same)) for same in methods.values())
    for method, same in methods.items():
        one, means = same[0], _means(same)
        kept = [at - 1 for at in (2, 5, 10) if at <= len(means)]
        ours, spread = " / ".join(f"{100 * means[at]:.2f}" for at in kept), _spreads(same, kept, 2, 100.0)
        megabytes = f"{one['bytes_up'] / 1e6:.0f} + {one['bytes_down'] / 1e6:.0f}"
        first = f"{100 * means[0]:.2f}"
        cost = _cost(same, bar)
        rows.append((method, first, ours, spread, _PAPER.get(method, "-"), one["rounds"], megabytes, cost, len(same)))
    head = (
        "method",
        "epoch 1",
        "epochs 2 / 5 / 10",
        "± over seeds",
        "paper",
        "rounds",
        "MB up + down",
        f"to reach {100 * bar:.2f}",
        "seeds",
    )
    key = records[0]["key"]
    words = f"## {key['data']}, 14 bands, one noisy party, {key['rows']} rows: accuracy, mean over seeds\n\n"
    return words + markdown(head, rows) + _pictures("noisy") + _lead(methods)


def _pictures(name: str) -> str:
    return "\nBy " + ", ".join(f"[{kind}]({name}_by_{kind}.svg)" for kind in ("epochs", "rounds", "mb")) + ".\n"


def _lead(methods: dict[str, list[Record]]) -> str:
    """By how much ADMM is ahead of plain gradients where it is least ahead, over epochs and seeds."""
    if not {"VimAdmm", "VimSgd"} <= set(methods):
        return ""
    sgd = {one["key"]["seed"]: one["scores"] for one in methods["VimSgd"]}
    leads = [
        ours - theirs
        for one in methods["VimAdmm"]
        for ours, theirs in zip(one["scores"], sgd[one["key"]["seed"]], strict=True)
    ]
    return f"\nVimAdmm less VimSgd where it is least, over epochs and seeds: {100 * min(leads):.2f} points.\n"


def _cost(same: list[Record], bar: float) -> str:
    """What it took to reach the bar."""
    one, scores = same[0], _means(same)
    reached = next((place + 1 for place, score in enumerate(scores) if score >= bar), None)
    if reached is None:
        return f"not in {len(scores)} epochs"
    rounds = one["rounds"] * reached // len(scores)
    return f"{reached} epochs, {rounds} rounds, {one['bytes'][reached - 1] / 1e6:.0f} MB"


def _messages(records: list[Record]) -> str:
    rows = [
        (
            one["key"]["method"],
            f"{one['bytes_up'] / 1e6:.2f}",
            f"{one['bytes_down'] / 1e6:.2f}",
            f"{one['papers_bytes_down'] / 1e6:.2f}",
            f"{one['papers_bytes_down'] / one['bytes_down']:.2f} x",
            f"{one['papers_bytes_down'] * one['parties'] / one['bytes_down']:.1f} x",
        )
        for one in records
    ]
    head = ("method", "MB up", "MB down", "the paper's messages down", "saved", "saved if sent once to all")
    return f"## What goes down, one epoch of {records[0]['key']['rows']} rows\n\n" + markdown(head, rows)


def _clean(records: list[Record]) -> str:
    rows = []
    for data in dict.fromkeys(one["key"]["data"] for one in records):
        there = [one for one in records if one["key"]["data"] == data]
        for method, same in _by_method(there).items():
            one, digits = same[0], 2 if same[0]["metric"] == "rmse" else 4
            by_epoch = " ".join(f"{score:.{digits}f}" for score in _means(same))
            spread = _spreads(same, [-1], digits)
            megabytes = f"{(one['bytes_up'] + one['bytes_down']) / 1e6:.1f}"
            wanted = len([other for other in there if other["key"]["method"] == method])
            seeds = f"{len(same)}" if len(same) == wanted else f"{len(same)}, {wanted - len(same)} diverged"
            where = (data, one["key"]["rows"], method, one["metric"])
            rows.append((*where, by_epoch, spread, one["rounds"], megabytes, seeds))
    head = ("data", "rows", "method", "metric", "by epoch", "± at the end", "rounds", "MB", "seeds")
    return "## Nobody noisy, mean over seeds\n\n" + markdown(head, rows) + _pictures("clean_mnist")


def _yardsticks(records: list[Record]) -> str:
    kinds = ("commonest", "best_party", "no_upload", "pooled_net", "pooled_trees")
    rows = [
        (
            one["key"]["data"],
            one["key"]["rows"],
            one["metric"],
            *("-" if one.get(kind) is None else f"{one[kind]:.4f}" for kind in kinds),
        )
        for one in records
    ]
    head = ("data", "rows", "metric", "always the commonest", "best party", "no upload", "pooled net", "pooled trees")
    return "## What they have to beat\n\n" + markdown(head, rows)


def _importance(records: list[Record]) -> str:
    pairs = ("heads_shapley", "heads_noise", "noise_shapley")
    rows = [
        (
            one["key"]["data"],
            one["key"]["method"],
            len(one["heads"]),
            f"{one['score']:.4f}",
            *(one[f"spearman_{pair}"] for pair in pairs),
            f"[picture](importance_{one['key']['data']}_{one['key']['method']}.svg)",
        )
        for one in records
    ]
    head = ("data", "method", "parties", "score", "heads ~ Shapley", "heads ~ noise", "noise ~ Shapley", "")
    return "## Which parties matter: Spearman correlations\n\n" + markdown(head, rows)


def _denoise(records: list[Record]) -> str:
    rows = [
        (
            one["party"],
            one["shrinkage"],
            f"{one['score']:.4f}",
            f"{one['score_noisy']:.4f}",
            "; ".join(f"[{name}](tsne_{name}.svg) {share:.3f}" for name, share in one["neighbours_alike"].items()),
        )
        for one in records
    ]
    head = ("noisy party", "its head, in units of before", "accuracy clean", "accuracy noisy", "t-SNE neighbours alike")
    return "## A noisy party's head\n\n" + markdown(head, rows) + "\n[All heads](denoise_heads.svg).\n"


def _summarise(records: list[Record]) -> str:
    rows = [(kind, f"{100 * one[kind]:.2f}", paper) for one in records for kind, paper in _TABLE_1.items()]
    words = f"## Fewer parties, {records[0]['key']['rows']} rows\n\n"
    return words + markdown(("parties", "accuracy", "paper, 54000 rows"), rows) + "\n[As bars](summarise.svg).\n"


def _privacy(records: list[Record]) -> str:
    scores = {(one["key"]["case"], one["key"]["null"]): _percent(one["accuracy"]) for one in records}
    rows = []
    for one in records:
        if one["key"]["null"] == "yes":
            continue
        case, without = one["key"]["case"], f"no upload, labels {'given' if one['labels_given'] else 'kept'}"
        bound = "no bound" if one["epsilon"] is None else f"{one['epsilon']:.2f}"
        claim = "-" if one["claimed"] is None else f"{one['claimed']:.3f}"
        nulls = scores.get((one["alone"], "yes"), "-"), scores.get((without, "yes"), "-")
        units = "; ".join(one["units"]) or "-"
        rows.append((case, one["key"]["method"], scores[case, "no"], *nulls, bound, claim, units, one["rounds"]))
    head = (
        "upload",
        "method",
        "accuracy",
        "noise alone",
        "no upload",
        "epsilon that holds",
        "claimed",
        "unit",
        "rounds",
    )
    words = f"## Privacy, {records[0]['key']['rows']} rows, delta 1e-5, one party\n\n"
    return words + markdown(head, rows) + "\n[Accuracy by epsilon](accuracy_by_epsilon.svg).\n"


def _percent(score: float | None) -> str:
    return "diverges" if score is None else f"{100 * score:.2f}"


def _labels(records: list[Record]) -> str:
    rows = [
        (one["key"]["method"], f"{100 * one['labels_read']:.2f} %", f"{100 * one['commonest']:.2f} %")
        for one in records
    ]
    return "## Labels one party reads off the downlink\n\n" + markdown(("method", "labels read", "by guessing"), rows)


def _choice(records: list[Record]) -> str:
    best: dict[str, float] = {}
    for one in records:
        best[one["key"]["method"]] = max(one["valid_accuracy"] or 0.0, best.get(one["key"]["method"], 0.0))
    rows = []
    for one in records:
        method, settings, found = one["key"]["method"], one["key"]["settings"], one["valid_accuracy"]
        used = "used" if settings == words_for(CHOSEN[method]) else ""
        rows.append((method, settings, _percent(found), "best" if found == best[method] else "", used))
    key = records[0]["key"]
    words = f"## How settings were chosen: MNIST, one noisy party, {key['rows']} rows, {key['epochs']} epochs\n\n"
    return words + markdown(("method", "settings", "accuracy on validation rows", "", ""), rows)


_TABLES = {
    "noisy": _noisy,
    "messages": _messages,
    "clean": _clean,
    "yardsticks": _yardsticks,
    "importance": _importance,
    "denoise": _denoise,
    "summarise": _summarise,
    "privacy": _privacy,
    "labels": _labels,
    "choice": _choice,
}
