"""Whether a change left the behaviour of every method as it was: one small run per method and variant, to the bit.

`--record` runs them all and writes `results/frozen_behaviour.json`; `--check` runs them again and names each figure
that differs. It uses the public names only (plans as TOML, `read_plan`, `execute`), so that files can move and classes
can be renamed underneath it. Noise comes from the seed throughout, or two runs could not be compared.

    python -m benchmarks.frozen_behaviour --check
    python -m benchmarks.frozen_behaviour --check --only FedOnce
    python -m benchmarks.frozen_behaviour --check --scores     # where predictions may differ in their last bits

Processors round differently, so that the record kept here is exact on the machine that wrote it only. On another one,
record before the change into a file of your own, and compare with that:

    python -m benchmarks.frozen_behaviour --record --file before.json
    python -m benchmarks.frozen_behaviour --check --file before.json
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

# Matrix products add up in another order on another number of threads; numpy reads this when it is first imported.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

import msgspec
import numpy as np

import laconic
from laconic.data import Quadrants
from laconic.methods import methods

RECORD = Path(__file__).parent / "results" / "frozen_behaviour.json"
SCORE_TOLERANCE = 0.03
"""How far a score may move under `--scores`: about one standard error on the hundred or so test rows of a run."""

Figures: TypeAlias = dict[str, Any]

_IMAGE_ROWS = 300

_DATA = {
    "binary": 'data.name = "breast_cancer"',
    "multiclass": 'data.name = "digits"\ndata.parties = 4',
    "regression": 'data.name = "diabetes"',
}
_TIMES = {"vertical": ("clinic", "lab"), "horizontal": ("early", "late")}
"""The parties with times to an event, for methods that learn from these."""

_SHORT = {
    **dict.fromkeys(
        ("OneShot", "FewShot", "SplitNN", "FedBCD", "FedCVT"),
        "method.trainer.epochs = 4",
    ),
    **dict.fromkeys(("Solo", "LateFusion", "Centralised"), "method.trainer = {epochs = 4}"),
    **dict.fromkeys(("VimSgd", "VimAdmm", "VimAdmmJoint", "Vafl", "Fdml"), "method.epochs = 2"),
    **dict.fromkeys(("FedAvg", "FedProx", "FedAdam", "FedYogi", "FedDf", "Pfnm"), "method.trainer.epochs = 3"),
    **dict.fromkeys(
        ("FedKt", "Pate", "SoloRows", "PooledRows"), 'method.model = {type = "Network", trainer.epochs = 6}'
    ),
    **dict.fromkeys(("Rap", "LocalDp"), 'method.learner = {type = "NetModel", trainer = {epochs = 4}}'),
    "FedOnce": 'method.trainer = {type = "Sgd", epochs = 4}',
    "Scaffold": 'method.trainer = {epochs = 3, lr = 0.05, optimizer = "sgd", weight_decay = 0.0}',
    "VerticalXgboost": "method.trees.trees = 4",
}
"""Less training than usual, for the second and third kind of task."""

_ALWAYS = {"LocalDp": "method.noise = {epsilon = 8.0, seeded = true}"}
"""What a run needs so that it can be repeated at all."""

_PRIVATE = {
    "FedOnce / DpNat": """
        method.encoder = {type = "DpNat", trainer = {sigma = 2.0, epochs = 2, seeded = true}}""",
    "FedOnce / Codebook": """
        method.encoder = {type = "Codebook", trainer = {sigma = 2.0, epochs = 2, seeded = true}}""",
    "FedOnce / DpPca": 'method.encoder = {type = "DpPca", sigma = 2.0, clip = 2.0, seeded = true}',
    "FedOnce / DpSgd": 'method.trainer = {type = "DpSgd", sigma = 2.0, epochs = 2, seeded = true}',
    "FedOnce / ClippedGaussian": """
        method.encoder = {type = "PublicProjection"}
        method.noise = {type = "ClippedGaussian", sigma = 2.0, seeded = true}""",
    "FedOnce / Perturb": 'method.noise = {type = "Perturb", scale = 0.1}\nmethod.trainer = {type = "Sgd", epochs = 4}',
    "FedOnce / epsilon": """
        method.encoder = {type = "DpPca", seeded = true}
        method.trainer = {type = "DpSgd", epochs = 2, seeded = true}
        budget.epsilon = 4.0""",
    "OneShot / RandomisedResponse": """
        method.trainer.epochs = 4
        method.labels = {epsilon = 1.0, seeded = true}""",
    "FewShot / RandomisedResponse": """
        method.trainer.epochs = 4
        method.labels = {epsilon = 1.0, seeded = true}""",
    "Rap / LocalGaussian": "method.noise = {epsilon = 4.0, seeded = true}",
    "VimSgd / RowsOnce": """
        method.epochs = 2
        method.privacy = {type = "RowsOnce", clip = 1.0, sigma = 1.0, seeded = true}""",
    "VimSgd / PrivateSteps": """
        method.epochs = 2
        method.privacy = {type = "PrivateSteps", clip = 1.0, sigma = 1.0, gradient_sigma = 1.0, seeded = true}""",
    "VimAdmm / BatchClip": """
        method.epochs = 2
        method.privacy = {type = "BatchClip", clip = 1.0, sigma = 1.0, seeded = true}""",
    "VimAdmmJoint / AsPublished": """
        method.epochs = 2
        method.privacy = {type = "AsPublished", clip = 1.0, sigma = 1.0, seeded = true}""",
    "Vafl / RowsOnce, encoder": """
        method.epochs = 2
        method.privacy.encoder = {type = "DpPca", sigma = 2.0, seeded = true}
        method.privacy.type = "RowsOnce"
        method.privacy.clip = 1.0
        method.privacy.sigma = 2.0
        method.privacy.seeded = true""",
    "Fdml / BatchClip": """
        method.epochs = 2
        method.privacy = {type = "BatchClip", clip = 1.0, sigma = 1.0, seeded = true}""",
    "Analytic / epsilon": "method.privacy = {seeded = true}\nbudget.epsilon = 4.0",
    "FedKt / L1": 'method.level = {type = "L1", secure = false}',
    "FedKt / L2": 'method.level = {type = "L2", secure = false, noise.type = "GaussianVotes"}',
}
_CHOICES = {
    "FedOnce / Nat": 'method.encoder = {type = "Nat"}\nmethod.trainer = {type = "Sgd", epochs = 4}',
    "FedOnce / Pca": 'method.encoder = {type = "Pca"}\nmethod.trainer = {type = "Sgd", epochs = 4}',
    "FedOnce / WhitenedPca": 'method.encoder = {type = "WhitenedPca"}\nmethod.trainer = {type = "Sgd", epochs = 4}',
    "FedOnce / RandomProjection": """
        method.encoder = {type = "RandomProjection"}
        method.trainer = {type = "Sgd", epochs = 4}""",
    "FedOnce / Autoencoder": 'method.encoder = {type = "Autoencoder", trainer.epochs = 4}',
    "FedOnce / Boosted": 'method.head = {type = "Boosted", trees = 10}',
    "FedOnce / Forest": 'method.head = {type = "Forest", trees = 10}',
    "FedOnce / more": 'method.trainer = {type = "Sgd", epochs = 4}\nmethod.more = {type = "Sgd", epochs = 2}',
    "FedOnce / float16, looks": """
        look_every = 1
        method.precision = "float16"
        method.trainer = {type = "Sgd", epochs = 4}""",
    "OneShot / SendLabels": 'method.guide = {type = "SendLabels"}\nmethod.trainer.epochs = 4',
    "OneShot / FixMatchTab, overlap": """
        method.local = {type = "FixMatchTab"}
        method.trainer.epochs = 4
        data.overlap = 120""",
    "OneShot / class heads": 'method.head = {type = "SummedHeads"}\nmethod.trainer.epochs = 4',
    "OneShot / several nets": """
        method.net = {type = "Ensemble", count = 2, net.type = "Mlp"}
        method.trainer.epochs = 4""",
    "OneShot / more": "method.trainer.epochs = 4\nmethod.more = {epochs = 2}",
    "FewShot / overlap": "method.trainer.epochs = 4\ndata.overlap = 120",
    "FedCVT / overlap": "method.trainer.epochs = 4\ndata.overlap = 120",
    "Rap / Gaussian, trees": """
        method.matrix = {type = "Gaussian"}
        method.learner = {type = "TreeModel", trees = {type = "Boosted", trees = 10}}""",
    "Rap / label holder": 'method.trains = "label holder"\nmethod.learner = {type = "LinearModel"}',
    "SplitNN / byte budget": "budget.max_bytes = 400000\nlook_every = 10",
    "VerticalXgboost / Encrypted": 'method.cipher = {type = "Encrypted"}\nmethod.trees.trees = 2',
    "FedKt / Forest, teachers, more": """
        method.model = {type = "Network", trainer.epochs = 6}
        method.teacher = {type = "Forest", trees = 5}
        method.more = {trainer.epochs = 2}""",
    "FedKt / Boosted": 'method.model = {type = "Boosted", trees = 5}',
    "FedKt / Logistic": 'method.model = {type = "Logistic"}',
    "FedAvg / three exchanges": "method.exchanges = 3\nlook_every = 1",
    "Linear / Processes": 'runtime = {type = "Processes"}',
    "Linear / Forked": 'runtime = {type = "Forked"}',
}
_IMAGES = {
    "FedOnce / images": 'method.trainer = {type = "Sgd", epochs = 2}',
    "OneShot / images, PatchNet": """
        method.net = {type = "PatchNet"}
        method.local = {type = "FixMatch"}
        method.trainer.epochs = 2""",
    "SplitNN / images, ResNet": 'method.net = {type = "ResNet"}\nmethod.trainer.epochs = 1',
}
_MATCHES = {"ExactMatch": "shop", "PrivateMatch": "shop", "AgreedIds": "club"}
"""Ways to match rows, and the party beside the bank: the club knows everyone whom the bank knows."""


def main() -> None:
    """Record, or compare."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = asked.add_mutually_exclusive_group(required=True)
    what.add_argument("--record", action="store_true", help="write the record anew")
    what.add_argument("--check", action="store_true", help="compare with the record")
    asked.add_argument("--only", default="", help="variants whose name holds this")
    asked.add_argument("--scores", action="store_true", help="let predictions differ, and scores by a standard error")
    asked.add_argument("--file", type=Path, default=RECORD, help="the record")
    said = asked.parse_args()
    if said.check and not said.file.is_file():
        sys.exit(f"there is no record {said.file}; write it with --record before the change")
    kept = json.loads(said.file.read_text()) if said.file.exists() else {}
    found = {}
    problems = [] if said.record else [f"{name}: no longer run" for name in kept if said.only in name]
    with all_plans() as plans:
        for name, text in plans.items():
            if said.only in name:
                found[name] = figures(run_images(text) if name in _IMAGES else laconic.execute(laconic.read_plan(text)))
                differing = [] if said.record else differences(kept.get(name, {}), found[name], scores=said.scores)
                problems = [one for one in problems if one != f"{name}: no longer run"]
                problems += [f"{name}: {difference}" for difference in differing]
                print(f"{name:44} {'; '.join(differing) or found[name]['predictions']}", flush=True)
    if said.record:
        said.file.write_text(json.dumps(kept | found if said.only else found, indent=1) + "\n")
        print(f"{len(found)} runs recorded in {said.file}")
    elif problems:
        sys.exit("\n".join(["", f"{len(problems)} figures differ from {said.file.name}:", *problems]))
    else:
        print(f"all {len(found)} runs are as recorded")


@contextmanager
def all_plans() -> Iterator[dict[str, str]]:
    """Every plan by name; those of files can be run as long as the block lasts."""
    plans = {}
    for name, more in (_PRIVATE | _CHOICES).items():
        plans[name] = _plan(name.split(" / ")[0], _DATA["binary"], more)
    for name, more in _IMAGES.items():
        plans[name] = _plan(name.split(" / ")[0], _DATA["multiclass"], more)
    with tempfile.TemporaryDirectory(prefix="laconic-") as folder:
        _write_tables(Path(folder))
        for name, method in methods().items():
            times = _files(folder, _TIMES[method.kind], "months") + "\ndata.event = 'left'"
            times += "\ndata.id = 'id'" if method.kind == "vertical" else ""
            for task in method.tasks:
                less = _SHORT.get(name, "") if task in ("multiclass", "regression") else ""
                plans[f"{name}, {task}"] = _plan(name, _DATA.get(task, times), _ALWAYS.get(name, ""), less)
        for match, other in _MATCHES.items():
            more = f"data.id = 'id'\ndata.match.type = '{match}'"
            plans[f"Linear / files, {match}"] = _plan("Linear", _files(folder, ("bank", other)), more)
        rows_apart = _files(folder, ("north", "south"))
        plans["FedAvg / files"] = _plan("FedAvg", rows_apart)
        public = f"data.public = {json.dumps(f'{folder}/public.csv')}"
        plans["FedKt / files, public rows"] = _plan("FedKt", rows_apart, public, _SHORT["FedKt"])
        plans["Linear / Journalled"] = _plan(
            "Linear", _DATA["binary"], f"runtime = {{type = 'Journalled', folder = '{folder}/journal'}}"
        )
        yield plans


def run_images(text: str) -> laconic.Result:
    """Run the plan's method on quarters of the digits as images, since no set at hand comes as images."""
    digits = laconic.load("digits")
    shades = (digits.raw[:_IMAGE_ROWS].reshape(-1, 1, 8, 8) * 15).astype(np.uint8).repeat(2, axis=2).repeat(2, axis=3)
    pixels = msgspec.structs.replace(digits.columns[0], name="image", kind="pixels")
    images = replace(digits, raw=shades, columns=(pixels,), y=digits.y[:_IMAGE_ROWS], groups={})
    return laconic.simulate(laconic.read_plan(text).method, laconic.deal(images, Quadrants(), seed=5, test=0.1), seed=5)


def figures(result: laconic.Result) -> Figures:
    """What is kept of a run: all that a user, another party or an accountant could see change."""
    traffic = {
        f"{phase} {what}": getattr(getattr(result, phase), what)
        for phase in ("align", "fit", "look", "final")
        for what in ("bytes_up", "bytes_down", "rounds", "uploads", "downloads")
    }
    return {
        "predictions": result.predictions,
        "score": result.score.value,
        "looks": [look.score.value for look in result.curve],
        "releases": len(result.releases),
        "released times": sum(release.times for release in result.releases),
        "released under noise": sum(release.noise is not None for release in result.releases),
        "epsilon": None if result.privacy is None else result.privacy.epsilon,
        "stopped": result.stopped,
        **{name: value for name, value in traffic.items() if value},
    }


def differences(before: Figures, now: Figures, *, scores: bool) -> list[str]:
    """What differs, in words; with `scores`, predictions may differ as long as scores are close."""
    if not before:
        return ["not in the record; add it with --record --only"]
    return [
        f"{key} was {before.get(key, 0)}, is {now.get(key, 0)}"
        for key in {**before, **now}
        if before.get(key, 0) != now.get(key, 0) and not (scores and _close(key, before, now))
    ]


def _close(key: str, before: Figures, now: Figures) -> bool:
    if key == "looks":
        return len(before[key]) == len(now[key])
    return key == "predictions" or (key == "score" and abs(before[key] - now[key]) <= SCORE_TOLERANCE)


def _plan(method: str, *parts: str) -> str:
    lines = [line.strip() for part in parts for line in part.splitlines()]
    return "\n".join([f"method.type = {method!r}", "seed = 5", *lines])


def _files(folder: str, names: tuple[str, ...], label: str = "churned") -> str:
    paths = ", ".join(f"{name} = {json.dumps(f'{folder}/{name}.csv')}" for name in names)
    return f"data.files = {{{paths}}}\ndata.label = '{label}'"


def _write_tables(folder: Path) -> None:
    """Three parties' files of the same people, not all at the shop, three of the same columns, and four with times."""
    people = range(200)
    left = {
        one: f"p{one},{(one * 37) % 101},{(one * 53) % 89},{('no', 'yes')[(one * 37) % 101 > 50]}" for one in people
    }
    right = {one: f"p{one},{(one * 71) % 97},{'abc'[one % 3]}" for one in reversed(people) if one % 7}
    rows = [f"{line},{right[one].partition(',')[2]}" for one, line in left.items() if one in right]
    times = [((one * 37) % 101, (one * 53) % 89, 1 + (one * 31) % 60, int(one % 3 > 0)) for one in people]
    sites = [",".join(map(str, one)) for one in times]
    tables = {
        "clinic": ("id,age,months,left", [f"p{one},{times[one][0]},{times[one][2]},{times[one][3]}" for one in people]),
        "lab": ("id,dose", [f"p{one},{times[one][1]}" for one in people]),
        "early": ("age,dose,months,left", sites[::2]),
        "late": ("age,dose,months,left", sites[1::2]),
        "bank": ("id,age,income,churned", list(left.values())),
        "shop": ("id,visits,region", list(right.values())),
        "club": ("id,points", [f"p{one},{(one * 29) % 83}" for one in reversed(people)]),
        **{
            name: ("age,income,churned,visits,region", [row.partition(",")[2] for row in rows[start::3]])
            for start, name in enumerate(("north", "south", "public"))
        },
    }
    for name, (heading, lines) in tables.items():
        (folder / f"{name}.csv").write_text("\n".join([heading, *lines, ""]))


if __name__ == "__main__":
    main()
