"""Tests use the public names, or modules of the package that they are about: `tests/PKG` is about `laconic.PKG`."""

import ast

import pytest

from laconic.methods import methods
from tools.names import PACKAGES, ROOT, TOP

REPO = ROOT.parent
FOLDERS = ("tests", "examples", "studies", "benchmarks")
PUBLIC = {(package, name) for names in (TOP, PACKAGES) for package in names for name in names[package].split()}
PUBLIC |= {("methods", name) for name in methods()}

_BY_HAND = "calculates again, by hand, what a method does with it"
_REPLACED = "the module itself, of which the test replaces or reads a part"
EXCEPTIONS = {
    "laconic.cli.demo_runs.write_files": "the page's example takes the demo's files",
    "laconic.deploy.transports.inprocess": _REPLACED,
    "laconic.inference.predict.cut_name": "how people asked for are called, in questions made by hand",
    "laconic.inference.server.party.Answerer": "a served party must count releases as others do",
    "laconic.learn.encoders.rap.draw_categorical": "attacks need what RAP hides, without a run around it",
    "laconic.learn.encoders.rap.draw_numeric": "attacks need what RAP hides, without a run around it",
    "laconic.learn.encoders.rap.draw_secret": "attacks need what RAP hides, without a run around it",
    "laconic.learn.encoders.rap.hide_classes": "attacks need what RAP hides, without a run around it",
    "laconic.learn.encoders.rap.hide_numbers": "attacks need what RAP hides, without a run around it",
    "laconic.learn.encoders.rap.project": "attacks need what RAP hides, without a run around it",
    "laconic.learn.models.least_squares.pack": _BY_HAND,
    "laconic.learn.models.least_squares.sum_up": "the attacked sums, without a run around them",
    "laconic.learn.models.least_squares.targets_of": "the attacked sums, without a run around them",
    "laconic.learn.models.least_squares.unpack": _BY_HAND,
    "laconic.learn.models.supervised.fit_top": _BY_HAND,
    "laconic.learn.nets.layers.Linear": "a layer; at the top this name is a method",
    "laconic.learn.nets.nets.load": "puts weights into a net; at the top this name loads data",
    "laconic.learn.train.descent.nearest_logits": _BY_HAND,
    "laconic.learn.train.descent.targets_of": _BY_HAND,
    "laconic.learn.train.losses": _REPLACED,
    "laconic.learn.train.semisupervised.begin": _BY_HAND,
    "laconic.learn.trees.dense_trees.predict_trees": _BY_HAND,
    "laconic.learn.trees.xgboost_mode.Tls": "only VerticalXgboost over sockets has it",
    "laconic.learn.trees.xgboost_mode.has_mode": "decides whether a test can run",
    "laconic.methods.families.guided.first_gradients": "the attacked gradients, without a run around them",
    "laconic.methods.families.guided.in_bytes": "the attacked gradients, without a run around them",
    "laconic.methods.vertical.rap.cluster": "must not depend on the number of threads",
    "laconic.methods.vertical.rap.nearest": "must not depend on the number of threads",
    "laconic.privacy.masks.FixedPoint": _BY_HAND,
    "laconic.privacy.masks.add_masks": "takes masks off as a server would that has both secrets of a party",
    "laconic.privacy.masks.derive": "takes masks off as a server would that has both secrets of a party",
    "laconic.privacy.masks.join_secret": "takes masks off as a server would that has both secrets of a party",
    "laconic.privacy.masks.unlock": "takes masks off as a server would that has both secrets of a party",
    "laconic.privacy.mechanisms.votes.SEEDED": "the words that a ledger must hold",
}


def deep_imports(path):
    """The package and the full name of everything that is imported from a module of another package."""
    parts = path.relative_to(REPO).parts
    own = parts[1] if parts[0] == "tests" and len(parts) > 2 else None
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").startswith("laconic."):
            _, package, *module = node.module.split(".")
            if module and package != own:
                yield from ((package, f"{node.module}.{alias.name}") for alias in node.names)


def found_in(folder):
    """What a folder's files import so; attacks are left out, as they go below every public name on purpose."""
    files = [path for path in (REPO / folder).rglob("*.py") if "attacks" not in path.parts]
    return {(path, *one) for path in files for one in deep_imports(path)}


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_public_name_is_imported_from_its_package(folder):
    found = {
        f"{path.relative_to(REPO)}: {name}"
        for path, package, name in found_in(folder)
        if (package, name.rpartition(".")[2]) in PUBLIC and name not in EXCEPTIONS
    }
    assert not found


def test_tests_import_nothing_else_from_other_packages():
    found = {name for _, _, name in found_in("tests")}
    assert found - EXCEPTIONS.keys() == set()
    assert EXCEPTIONS.keys() - found == set(), "no longer needed"
