"""Methods are found by their files and by other packages' entry points; the latter work wherever ours do."""

import json
from pathlib import Path

import pytest

import laconic.methods
from laconic import Method
from laconic.errors import PlanError
from laconic.methods.registry import find_method, methods, methods_in, read_method
from laconic.methods.vertical.fedonce import FedOnce
from tests.methods.packages import install, make_wheel, random_sums, run_with

FOLDER = Path(laconic.methods.__file__).parent
COMMANDS = """
import json
from click.testing import CliRunner
from laconic.cli import main

def laconic(*words):
    done = CliRunner().invoke(main, [str(word) for word in words])
    return {"code": done.exit_code, "out": done.stdout, "err": done.stderr, "trace": repr(done.exception)}
"""
USE = (
    COMMANDS
    + """
from pathlib import Path
from laconic.testing.check_method import check_method
from laconic.methods.registry import find_method
from tests.deploy.conftest import World

found = {"methods": laconic("methods")}
found["plan"] = laconic("plan", "randomsums", "--data", "breast_cancer", "--set", "method.size=5")
Path("plan.toml").write_text(found["plan"]["out"])
found["run"] = laconic("run", "plan.toml", "--json")
words = ["--data", "breast_cancer", "--seeds", 1, "--no-yardsticks", "--set", "RandomSums.size=3"]
found["compared"] = laconic("compare", "RandomSums", "Linear", *words)
found["rounds"] = check_method(find_method("RandomSums")()).fit.rounds

world = World(Path("allowed"), parties=("bank", "shop"), allow='methods = ["AgreedIds", "RandomSums"]')
for name in ("bank", "shop"):
    Path(f"{name}.csv").write_bytes((world.home(name) / "rows.csv").read_bytes())
own = ["--files", "bank.csv", "shop.csv"]
found["saved"] = laconic("run", "RandomSums", *own, "--id", "customer", "--label", "churned", "--model", "churn")
found["predicted"] = laconic("predict", "churn", *own, "--out", "scores.csv")

def seal(world):
    world.plan('[method]\\ntype = "RandomSums"\\nsize = 4\\n')
    shop = world.home("shop")
    return laconic("seal", shop / "plan.toml", "--party", shop / "shop.toml", "-o", world.inbox / "shop.envelope")

found["sealed"] = seal(world)
bank = world.home("bank")
found["opened"] = laconic("open", bank / "plan.toml", world.inbox, "--party", bank / "bank.toml")
found["refused"] = seal(World(Path("refused"), parties=("bank", "shop"), allow='methods = ["AgreedIds", "FedOnce"]'))
print(json.dumps(found))
"""
)
LIST = (
    COMMANDS
    + """
from laconic.methods.registry import find_method

said = {"methods": laconic("methods"), "run": laconic("run", "Torn", "--data", "breast_cancer"),
        "ours": find_method("FedOnce").__module__}
print(json.dumps(said))
"""
)
METHOD = """
from laconic.core.method import Method
class {name}(Method, frozen=True):
    "A method."
    {setting}
    def fit(self, hub, peers, /): yield
    def predict(self, hub, peers, rows, /): return None
"""


def test_every_file_of_a_method_is_in_the_registry():
    files = {path.stem.replace("_", "") for kind in ("vertical", "horizontal", "baselines")
             for path in (FOLDER / kind).glob("[!_]*.py")}  # fmt: skip
    assert files <= {name.casefold() for name in methods()}


def test_a_method_that_is_still_abstract_is_not_in_the_registry():
    assert "Summing" not in methods()
    assert list(methods_in("laconic.methods.families.summed")) == []
    assert all(kind().tasks for kind in methods().values())


def test_between_method_and_a_method_that_can_be_built_is_at_most_one_abstract_class():
    between = {
        kind.__name__: [one.__name__ for one in kind.__mro__[1:] if one not in Method.__mro__]
        for kind in methods().values()
    }
    assert {name: found for name, found in between.items() if len(found) > 1} == {}
    buildable = set(methods())
    assert {name: found for name, found in between.items() if buildable & set(found)} == {}


def test_names_are_found_in_whatever_case_and_unknown_ones_are_refused():
    assert find_method("fedonce") is FedOnce
    with pytest.raises(PlanError, match="there is no method 'fedonse'; did you mean FedOnce"):
        find_method("fedonse")


def test_settings_are_read_as_the_method_they_name():
    assert read_method({"type": "FedOnce", "precision": "float16"}) == FedOnce(precision="float16")


def test_ours_come_before_those_of_others():
    ours = [kind.__module__.startswith("laconic.") for kind in methods().values()]
    assert all(issubclass(kind, Method) for kind in methods().values())
    assert ours == sorted(ours, reverse=True)


@pytest.fixture(scope="module")
def used(tmp_path_factory):
    """What every command says of a method that is in a package of its own."""
    folder = tmp_path_factory.mktemp("theirs")
    install(folder / "installed", random_sums(folder))
    return run_with(folder / "installed", USE, folder) | {"folder": folder}


@pytest.mark.slow
@pytest.mark.parametrize("command", ["methods", "plan", "run", "compared", "saved", "predicted", "sealed", "opened"])
def test_a_command_takes_a_method_of_another_package(used, command):
    assert used[command]["code"] == 0, used[command]
    assert "Note:" not in used[command]["err"]


@pytest.mark.slow
def test_a_method_of_another_package_is_listed_with_what_leaves(used):
    listed = " ".join(used["methods"]["out"].split())
    assert "RandomSums" in listed
    assert "columns can be guessed" in listed


@pytest.mark.slow
def test_a_plan_of_another_packages_method_is_run_with_its_settings(used):
    result = json.loads(used["run"]["out"])
    assert result["method"] == {"type": "RandomSums", "size": 5}
    assert result["metrics"]["accuracy"] > 0.8


@pytest.mark.slow
def test_a_method_of_another_package_keeps_the_contract(used):
    assert used["rounds"] == 1


@pytest.mark.slow
def test_a_saved_model_of_another_packages_method_predicts(used):
    lines = (used["folder"] / "scores.csv").read_text().splitlines()
    assert len(lines) == 1 + 120


@pytest.mark.slow
def test_a_partys_rules_know_a_method_of_another_package_by_name(used):
    assert used["refused"]["code"] == 1
    assert "shop does not allow RandomSums" in used["refused"]["err"]


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """What is said where most of the packages cannot be used, and one can."""
    folder = tmp_path_factory.mktemp("broken")
    wheels = [
        random_sums(folder),
        make_wheel(folder, "torn", {"Torn": "torn:Torn"}, "import no_such_module"),
        make_wheel(folder, "thief", {"FedOnce": "thief:FedOnce"}, METHOD.format(name="FedOnce", setting="")),
        make_wheel(folder, "other", {"Other": "other:Another"}, METHOD.format(name="Another", setting="")),
        make_wheel(folder, "twin_a", {"Twin": "twin_a:Twin"}, METHOD.format(name="Twin", setting="")),
        make_wheel(folder, "twin_b", {"Twin": "twin_b:Twin"}, METHOD.format(name="Twin", setting="")),
        make_wheel(folder, "bare", {"Bare": "bare:Bare"}, METHOD.format(name="Bare", setting="size: int")),
        make_wheel(folder, "vague", {"Vague": "vague:Vague"}, METHOD.format(name="Vague", setting="size: 'Sise' = 1")),
        make_wheel(folder, "number", {"Number": "number:Number"}, "Number = 3"),
    ]
    install(folder / "installed", *wheels)
    return run_with(folder / "installed", LIST, folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "why"),
    [
        ("torn 1.0", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("thief 1.0", "Laconic has a method of that name"),
        ("other 1.0", "the class is called Another"),
        ("packages twin_a 1.0 and twin_b 1.0", "all offer a method Twin, so none is used"),
        ("bare 1.0", "Missing required argument 'size'"),
        ("vague 1.0", "name 'Sise' is not defined"),
        ("number 1.0", "not a class that derives from laconic.Method"),
    ],
)
def test_a_package_that_cannot_be_used_is_named_in_one_line(broken, package, why):
    lines = [line for line in broken["methods"]["err"].splitlines() if f"{package} " in line]
    assert len(lines) == 1
    assert lines[0].startswith("Note: ")
    assert why in lines[0]


@pytest.mark.slow
def test_a_package_that_cannot_be_used_leaves_the_rest_in_order(broken):
    assert broken["methods"]["code"] == 0
    assert "RandomSums" in broken["methods"]["out"]
    assert broken["ours"] == "laconic.methods.vertical.fedonce"


@pytest.mark.slow
def test_a_method_of_a_broken_package_is_refused_with_the_reason(broken):
    assert broken["run"]["code"] == 2
    assert "no_such_module" in broken["run"]["err"]
