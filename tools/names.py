"""The public names, and the stubs by which they are imported when first used: `make names` writes them.

A name is typed here once; the module that defines it is found in the tree, and methods are found by the registry. The
stubs (`__init__.pyi`) serve type checkers and, by `lazy_loader`, the running package. Never edit one.
"""

import ast
import sys
from pathlib import Path

from laconic.methods.registry import methods

ROOT = Path(__file__).parent.parent / "laconic"
MOST_AT_TOP = 70

TOP = {
    "core": "Method Result",
    "data": (
        "Dirichlet Equal Federation deal deal_rows disturb from_files from_frames load rows_from_files rows_from_frames"
    ),
    "deploy": "compare execute from_party_files importance read_results simulate train",
    "errors": "LaconicError",
    "inference": "FederatedClassifier FederatedRegressor add_party add_rows forget load_model save_model",
    "plan": "Budget DataPlan Plan read_plan write_plan",
    "privacy": "price",
    "report": "disclose render_page",
    "testing": "check_method",
}
"""Verbs, ways to bring data, and what both are said with, by where they are defined; every method comes besides."""

PACKAGES = {
    "align": "AgreedIds ExactMatch PrivateMatch SameColumns",
    "core": "Method Party Peers Result on_device step task_of",
    "data": "Biased Dirichlet Equal Federation Groups HalfTest Iid Patches Quadrants RandomHoldout Rows Sizes",
    "deploy": "Faults Forked InProcess Processes",
    "inference": "Abstain Model Refit Scores SoloModel Zeros",
    "learn": (
        "Boosted Cnn Columns Convolutions Drawn FixMatch FixMatchTab Forest FrozenEncoder Joint Logistic Mlp Network "
        "PatchNet Pca Photographs PublicRows RandomFourier RandomProjection RandomRelu ResNet Sgd SummedHeads Whitened "
        "WhitenedPca"
    ),
    "methods": "Gradients Prox SendLabels",
    "privacy": (
        "AsPublished BatchClip ClippedGaussian Codebook DpNat DpPca DpSgd GaussianSums GaussianVotes L0 L1 L2 "
        "LaplaceVotes LocalGaussian Moments Perturb Pld PrivateSteps PublicProjection PureNoise RandomisedResponse Rdp "
        "RowsOnce SimpleDivision ledgers_of"
    ),
    "report": "plot_bytes plot_importance plot_rounds plot_wire track",
    "tables": "Task",
}
"""Everything else that users need, by its package: `laconic.privacy.DpSgd`."""

_HEAD = """\
# Where each public name is defined; it is imported when it is first used. Written by `make names`: do not edit.

"""


def stubs() -> dict[Path, str]:
    """The text of every stub by its path."""
    top = {name: module_of(name, place) for place, names in TOP.items() for name in names.split()}
    ours = {name: kind.__module__ for name, kind in methods().items() if kind.__module__.startswith("laconic.")}
    written = {ROOT / "__init__.pyi": _stub("laconic", top | ours)}
    for package, names in PACKAGES.items():
        homes = {name: module_of(name, package) for name in names.split()}
        written[ROOT / package / "__init__.pyi"] = _stub(f"laconic.{package}", homes)
    return written


def module_of(name: str, place: str) -> str:
    """The module, at or beneath a place in the package, that defines a name."""
    folder = ROOT / place
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    found = [path for path in files if name in _defined(path)]
    if len(found) != 1:
        where = ", ".join(str(path.relative_to(ROOT)) for path in found) or "nowhere"
        raise LookupError(f"{name} should be defined once in laconic/{place}, but is in: {where}")
    return ".".join(("laconic", *found[0].relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


def _defined(path: Path) -> set[str]:
    """What a file defines at its top, without running it."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def _stub(package: str, homes: dict[str, str]) -> str:
    ordered = sorted(homes.items(), key=lambda home: (home[1], not home[0].isupper(), home[0]))
    lines = [f"from {module.removeprefix(package)} import {name} as {name}" for name, module in ordered]
    return _HEAD + "\n".join(lines) + "\n"


def main() -> None:
    """Write every stub, and say which changed; with `--check` only say so, and fail."""
    stale = [path for path, text in stubs().items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{path.relative_to(ROOT.parent)} is not up to date" if "--check" in sys.argv else f"wrote {path}")
        if "--check" not in sys.argv:
            path.write_text(stubs()[path], encoding="utf-8")
    if stale and "--check" in sys.argv:
        raise SystemExit("run: make names")


if __name__ == "__main__":
    main()
