"""The tables of the VIM study, next to the paper's figures, and the lines of its figures 2 and 3."""

from pathlib import Path

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
    _draw_noisy({one["key"]["method"]: one for one in parts["noisy"]}, out)
    _draw_private(parts["privacy"], out)


def _draw_noisy(curves: dict[str, Record], out: Path) -> None:
    if curves:
        by_epoch = {name: [(at + 1.0, score) for at, score in enumerate(one["scores"])] for name, one in curves.items()}
        by_bytes = {name: _by_megabytes(one) for name, one in curves.items()}
        lines(out / "accuracy_by_epoch.svg", "MNIST, one noisy party: accuracy by epoch", "epochs", by_epoch)
        lines(out / "accuracy_by_bytes.svg", "MNIST, one noisy party: accuracy by MB sent", "MB", by_bytes)


def _draw_private(records: list[Record], out: Path) -> None:
    """Where each row is noised once, what epsilon buys; next to it, what its noise alone scores."""
    once = [one for one in records if one["key"]["case"].startswith("rows once, random directions") and one["epsilon"]]
    once = [one for one in once if not one["key"]["case"].endswith("too")]
    open_rows = sorted((one["epsilon"], one["accuracy"]) for one in once)
    alone = {one["key"]["case"]: one["accuracy"] for one in records if one["key"]["null"] == "yes"}
    if once and once[0]["alone"] in alone:
        nothing = [(epsilon, alone[once[0]["alone"]]) for epsilon, _ in open_rows]
        series = {"rows noised once": open_rows, "the noise alone": nothing}
        lines(
            out / "accuracy_by_epsilon.svg",
            "MNIST: accuracy by proven epsilon, one row at one party",
            "epsilon",
            series,
        )


def _by_megabytes(one: Record) -> list[tuple[float, float]]:
    return [(sent / 1e6, score) for sent, score in zip(one["bytes"], one["scores"], strict=True)]


def _noisy(records: list[Record]) -> str:
    rows = []
    longest = max(len(one["scores"]) for one in records)
    bar = min(max(one["scores"]) for one in records if len(one["scores"]) == longest)
    for one in records:
        scores, method = one["scores"], one["key"]["method"]
        ours = " / ".join(f"{100 * scores[at - 1]:.2f}" for at in (2, 5, 10) if at <= len(scores))
        megabytes = f"{one['bytes_up'] / 1e6:.0f} + {one['bytes_down'] / 1e6:.0f}"
        first = f"{100 * scores[0]:.2f}"
        rows.append((method, first, ours, _PAPER.get(method, "-"), one["rounds"], megabytes, _cost(one, bar)))
    head = ("method", "epoch 1", "epochs 2 / 5 / 10", "paper", "rounds", "MB up + down", f"to reach {100 * bar:.2f}")
    key = records[0]["key"]
    words = f"## {key['data']}, 14 bands, one noisy party, {key['rows']} rows, seed {key['seed']}: accuracy\n\n"
    pictures = "\nBy [epoch](accuracy_by_epoch.svg) and by [bytes](accuracy_by_bytes.svg).\n"
    return words + markdown(head, rows) + pictures


def _cost(one: Record, bar: float) -> str:
    """What it took to reach the bar."""
    scores = one["scores"]
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
    rows = [
        (
            one["key"]["data"],
            one["key"]["rows"],
            one["key"]["method"],
            one["metric"],
            " ".join(f"{score:.4f}" for score in one["scores"]),
            one["rounds"],
            f"{(one['bytes_up'] + one['bytes_down']) / 1e6:.1f}",
        )
        for one in records
    ]
    return "## Nobody noisy\n\n" + markdown(("data", "rows", "method", "metric", "by epoch", "rounds", "MB"), rows)


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
