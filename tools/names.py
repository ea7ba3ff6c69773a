"""The public names, and the stubs by which they are imported when first used: `make names` writes them.

A name is typed here once; the module that defines it is found in the tree, and methods are found by the registry. The
stubs (`__init__.pyi`) serve type checkers and, by `lazy_loader`, the running package. Never edit one.
"""

import ast
import sys
from functools import cache
from pathlib import Path

from laconic.methods.registry import methods
from laconic.moved import OLD_VERBS

ROOT = Path(__file__).parent.parent / "laconic"
MOST_AT_TOP = 70

TOP = {
    "core": "Method",
    "data": (
        "Dirichlet Equal Federation deal deal_rows disturb federation from_files from_frames load rows_from_files "
        "rows_from_frames"
    ),
    "deploy": "Result from_party_files importance read_results",
    "errors": "LaconicError",
    "inference": "FederatedClassifier FederatedRegressor add_party add_rows fit forget load_model save_model",
    "plan": "Budget DataPlan Plan read_plan write_plan",
    "privacy": "price",
    "report": "compare disclose render_page",
    "testing": "check_method",
}
"""Verbs, ways to bring data, and what both are said with, by where they are defined; every method comes besides."""

PACKAGES = {
    "align": "AgreedIds ExactMatch PrivateMatch SameColumns",
    "audit": (
        "Finding LinearAttacker MlpAttacker TreesAttacker attack_columns audit best_correlations canary_attack "
        "commonest compare_labels compare_widths encoder_game epsilon_lower_bound gradients_sent infer_labels "
        "labels_read_off likelihood_ratio_attack losses_of match_by_leverage pair_codes pca_game rebuild_columns "
        "reconstruct recover_from_known_rows row_losses rows_game sgd_game share_recovered threshold_attack "
        "unmask_numeric_label unmask_single unmix"
    ),
    "core": (
        "Ask Blob Budgeted Carrier Crossing EVERY_ROW Entry Erasable Exportable Exported Ledger Mergeable Method Noise "
        "Noised Opening Party Peers Question Script Traffic Tunable Watcher WireLog answer decode decode_question "
        "encode read_heading step steps_of task_of unwrap watching"
    ),
    "data": (
        "Biased Dataset Dirichlet Equal Federation Groups HalfTest IdRules Iid LABEL_HOLDER OwnData Patches Quadrants "
        "RandomHoldout Reserve Rows Sizes party_names read_own usual_cut"
    ),
    "deploy": (
        "Absence Advice Allowance Candidate Consortium EpsilonAccount Faults FittedRun Forked HubAddress Importance "
        "InProcess Journal KeyRing Leakage Look PartyFile PartyFolder PartySite PartyTraffic Policy Processes "
        "RebuiltColumn Recorder Release Result RunLimits RunState Runtime SecretKey Tuning Watch advise code_digest "
        "compare_plans denoise ledgers_of make_key open_calls open_runtime open_site provision reach read_party "
        "read_public save_key roles run seal_plan simulate summarise train trust worths write_consortium"
    ),
    "inference": (
        "Abstain About Access AnyAbsent Limits Model Reasons Refit Scores SoloModel Store Zeros explain make_app "
        "export_model parts_of reach_parts read_new read_new_labels read_tokens read_labelled"
    ),
    "learn": (
        "Adaptive AnyAssignment AnyClassifier AnyEncoder AnyExtractor AnyLocal Attention Autoencoder Best "
        "BestEncoder Boosted Cnn Confident Convolution Ensemble Exact FixMatch FixMatchTab Fixed Forest Gaussian "
        "Joint Krum LinearModel Logistic Mean Median Mlp Nat Net NetModel Network Optimiser Orthogonal PatchNet Pca "
        "RandomProjection ResNet Sgd Shard Soft SummedHeads Swaps TreeModel TrimmedMean WhitenedPca check_model "
        "classes_of evaluate fit_linear fit_models fit_supervised initialise make predict_linear predict_model "
        "predict_supervised purity torch_generator weights_of device_asked on_device Learner Columns Convolutions "
        "Drawn Estimator FrozenEncoder Mixture Photographs PublicRows RandomFourier RandomRelu Whitened Adam "
        "TakeAverage Yogi"
    ),
    "methods": (
        "Admm Check Contribution Gradients Majority MixedRows ModelCheck PooledShares Prox SecureSums SendLabels "
        "ServerShares Socket batch_rows labelled methods"
    ),
    "plan": (
        "AnyRuntime Budget DataPlan Journalled Plan change_plan draft open_releases plan_fingerprint read_plan "
        "read_plan_file read_value refuse_unkept to_plain write_plan papers read_preset read_table"
    ),
    "privacy": (
        "AnyAccountant AsPublished BatchClip Budget ClippedGaussian Codebook ColumnBounds Demand DpNat DpPca "
        "DpSgd Encrypted Event Events GaussianColumns GaussianMoments GaussianSums GaussianUpdates GaussianVotes "
        "L0 L1 L2 LaplaceVotes Level LocalGaussian Moments Perturb Pld PrivateEncoder PrivateSteps "
        "PublicProjection Price PureNoise RandomisedResponse Randomness Rdp RowsOnce SecureRandomness SeededRandomness "
        "SimpleDivision Sure compose epsilon_of mu_of poisson_sample"
    ),
    "report": (
        "Compared commands_for plot_bytes plot_importance plot_learning plot_predictions plot_rebuilt plot_roc "
        "plot_rounds plot_wire rows_of show_card show_price track"
    ),
    "tables": (
        "Bin Column LabelScale Quality Recipe Scaled Score Table Task Tried apply_recipe deviances events_of "
        "fingerprint fit_recipe headline metrics pairs_of signed_times"
    ),
    "testing": (
        "BadParty CellTruth MessyFederation Misread PartyTruth Truth bare_party check_method compare_new_rows "
        "compare_reading draw find_leak flip_labels frame_of leave_out messy_federations open_peers "
        "rows_held_out drawn_times small_federation small_horizontal small_overlap write_public"
    ),
}
"""Everything else that users, and people who write methods and tests, need by its package: `laconic.privacy.DpSgd`."""

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


@cache
@cache
def _defined(path: Path) -> set[str]:
    """What a file defines at its top, without running it."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.ImportFrom):  # `import X as X` is how a file passes a name on.
            found |= {alias.name for alias in node.names if alias.asname == alias.name}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def _stub(package: str, homes: dict[str, str]) -> str:
    ordered = sorted(homes.items(), key=lambda home: (home[1], *_rank(home[0])))
    lines = [f"from {module.removeprefix(package)} import {name} as {name}" for name, module in ordered]
    before, after = _old_verbs() if package == "laconic" else ("", "")
    return _HEAD + before + "\n".join(lines) + "\n" + after


def _rank(name: str) -> tuple[bool, bool, str]:
    """Where the linter wants a name: constants first, then classes, then functions, whatever their case."""
    return not name.isupper(), not name[0].isupper(), name.casefold()


def _old_verbs() -> tuple[str, str]:
    """Verbs of before, for type checkers alone: the running package has each with a line that names the new one."""
    homes = {verb: (f"_{home.rpartition('.')[2]}", home) for verb, (home, _) in OLD_VERBS.items()}
    imports = sorted({f"import {home} as {name}" for name, home in homes.values()})
    verbs = [f"{verb} = {name}.{verb}" for verb, (name, _) in homes.items()]
    return "\n".join([*imports, "", ""]), "\n".join(["", "__version__: str", *verbs, ""])


def main() -> None:
    """Write every stub, and say which changed; with `--check` only say so, and fail."""
    texts = stubs()
    stale = [path for path, text in texts.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{path.relative_to(ROOT.parent)} is not up to date" if "--check" in sys.argv else f"wrote {path}")
        if "--check" not in sys.argv:
            path.write_text(texts[path], encoding="utf-8")
    if stale and "--check" in sys.argv:
        raise SystemExit("run: make names")


if __name__ == "__main__":
    main()
