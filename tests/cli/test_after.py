"""Commands on saved models: what they refuse, and that nothing half-done stays."""

import shutil

import pandas
import pytest
from click.testing import CliRunner

from laconic.cli import main
from laconic.cli.demo_runs import write_files


def call(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("after")
    write_files(folder)
    files = sorted(folder.glob("*.csv"))
    words = ("--files", *files, "--id", "customer", "--label", "diagnosis", "--set", "method.trainer.epochs=3")
    outcome = call("run", "FedOnce", *words, "--model", folder / "model")
    assert outcome.exit_code == 0, outcome.output
    assert "bank can predict diagnosis" in outcome.stdout
    assert "bytes/row" in outcome.stdout
    assert "there beside bank" in outcome.stdout
    return folder, {file.name.split(".")[0]: file for file in files}


def test_the_plan_is_kept_with_every_part(place):
    folder, _ = place
    for party in ("bank", "shop"):
        assert '[method]\ntype = "FedOnce"' in (folder / "model" / party / "plan.toml").read_text()


def test_scores_go_to_a_file_or_to_standard_output(place, tmp_path):
    folder, files = place
    words = ("predict", folder / "model", "--files", files["bank"], files["shop"])
    to_file = call(*words, "--out", tmp_path / "scores.csv")
    assert to_file.exit_code == 0
    assert to_file.stdout == ""
    text = (tmp_path / "scores.csv").read_text()
    assert text.startswith("id,diagnosis,probability of benign,probability of malignant,answered by,parties\n")
    assert call(*words).stdout == text
    assert [path.name for path in tmp_path.iterdir()] == ["scores.csv"]


def test_reasons_stand_beside_the_scores_and_add_up(place, tmp_path):
    folder, files = place
    given = ("--files", files["bank"], files["shop"])
    for words in (given, ("--without", "shop", "--absent", "refit")):
        found = call("predict", folder / "model", *words, "--reasons", "--out", tmp_path / "why.csv")
        assert found.exit_code == 0, found.output
        assert "Shares of the probability of diagnosis malignant" in found.stderr
        table = pandas.read_csv(tmp_path / "why.csv")
        shares = table[[name for name in table.columns if name.startswith("share of ")]]
        assert "share of shop" in shares
        assert any(name.startswith("share of bank: ") for name in shares)
        assert (table["base"] + shares.sum(axis=1)).to_numpy() == pytest.approx(
            table["probability of malignant"], abs=1e-5
        )
        assert bool(shares["share of shop"].any()) == (words is given)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("predict", "{}", "--files", "{shop}"), "bank predicts, but there is no file with its rows"),
        (("predict", "{}", "--files", "{other}"), "Begin its name with a party's: bank, shop"),
        (("predict", "{}", "--files", "{bank}", "{bank}"), "would both be bank's"),
        (("predict", "{}", "--without", "shpo"), "did you mean shop?"),
        (("predict", "{}", "--out", "/nowhere/x.csv"), "there is no folder /nowhere"),
        (("predict", "{}/shop"), "only answers questions; load that of bank"),
        (("predict", "{root}"), "holds no model; save one with"),
        (("forget", "bank", "{}"), "holds the label and the model"),
        (("forget", "nobody", "{}"), "is no party of this model; it has shop"),
        (("add", "{}"), "one of the two"),
        (("add", "{}", "--party", "insurer"), "--party needs NAME=FILE"),
        (("add", "{}", "--party", "shop={shop}"), "there is a party 'shop' already"),
        (("add", "{}", "--files", "{shop}"), "add a file with its own new rows"),
        (("serve", "{}"), "clients could not be identified"),
        (("serve", "{}", "--tokens", "{short}"), "shorter than 16"),
        (("serve", "{}", "--tokens", "{tokens}", "--host", "192.0.2.1"), "HTTPS is needed"),
        (("serve", "{}", "--tokens", "{tokens}", "--key", "{tokens}"), "a key its certificate"),
        (("serve", "{}", "--tokens", "{tokens}", "--ask", "shop=https://x"), "--ask needs --files"),
        (("serve", "{}", "--tokens", "{tokens}", "--files", "{bank}", "--ask", "shop"), "--ask needs PARTY=URL"),
        (("serve", "{}/shop", "--tokens", "{tokens}"), "served by shop's own rules: name its party file"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(place, tmp_path, words, said):
    folder, files = place
    (tmp_path / "short.txt").write_text("abc")
    (tmp_path / "tokens.txt").write_text("0123456789abcdef")
    for name in ("short.txt", "tokens.txt"):
        (tmp_path / name).chmod(0o600)
    (tmp_path / "other.csv").write_text("customer,x\n1,2\n")
    names = {"shop": files["shop"], "bank": files["bank"], "other": tmp_path / "other.csv", "root": tmp_path}
    names |= {"short": tmp_path / "short.txt", "tokens": tmp_path / "tokens.txt"}
    outcome = call(*(word.format(folder / "model", **names) for word in words))
    assert outcome.exit_code == 2, outcome.output
    assert outcome.stderr.startswith("Error: ")
    assert said in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1


def test_a_part_that_is_gone_is_named_with_what_to_do(place, tmp_path):
    folder, files = place
    shutil.copytree(folder / "model" / "bank", tmp_path / "m" / "bank")
    outcome = call("predict", tmp_path / "m", "--files", files["bank"], files["shop"])
    assert outcome.exit_code == 2
    assert f"{tmp_path / 'm'} has no part of shop" in outcome.stderr
    assert "--absent says what is done then" in outcome.stderr
    assert call("predict", tmp_path / "m", "--files", files["bank"]).exit_code == 0


def test_a_model_is_saved_from_parties_in_this_process_only(tmp_path):
    outcome = call("run", "Solo", "--data", "breast_cancer", "--runtime", "processes", "--model", tmp_path / "m")
    assert outcome.exit_code == 2
    assert "leave the runtime out" in outcome.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_model_is_replaced_only_if_asked_and_no_part_of_it_stays(tmp_path):
    words = ("run", "Solo", "--data", "breast_cancer", "--set", "method.trainer.epochs=1", "--model", tmp_path / "m")
    assert call(*words, "--parties", "4").exit_code == 0
    assert call("predict", tmp_path / "m").exit_code == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    refused = call(*words, "--parties", "2")
    assert refused.exit_code == 2
    assert "already; name another folder, or say that it may go: --replace" in refused.stderr
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    asked = call(*words, "--parties", "2", "--replace")
    assert asked.exit_code == 0, asked.stderr
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == ["bank", "shop"]


def test_a_folder_of_something_else_takes_no_model(tmp_path):
    (tmp_path / "letters.txt").write_text("mine")
    outcome = call("run", "Solo", "--data", "breast_cancer", "--model", tmp_path, "--replace")
    assert outcome.exit_code == 2
    assert "holds no model but letters.txt" in outcome.stderr


@pytest.mark.parametrize("command", ["predict", "add", "forget", "serve"])
def test_help_gives_examples(command):
    assert f"laconic {command} churn" in call(command, "--help").stdout or f"laconic {command} shop churn" in call(
        command, "--help"
    ).stdout  # fmt: skip


@pytest.mark.parametrize("command", ["predict", "add"])
@pytest.mark.parametrize("kept", [True, False])
def test_rows_of_a_party_that_was_forgotten_are_refused_until_it_joins_again(place, tmp_path, command, kept):
    folder, files = place
    model = tmp_path / "model"
    shutil.copytree(folder / "model", model)
    assert call("forget", "shop", model).exit_code == 0
    if not kept:
        shutil.rmtree(model / "shop")
    outcome = call(command, model, "--files", files["bank"], files["shop"])
    assert outcome.exit_code == 2
    assert "shop was forgotten by this model" in outcome.stderr
    assert "laconic add MODEL --party shop=FILE" in outcome.stderr
    assert call("add", model, "--party", f"shop={files['shop']}").exit_code == 0
    assert call("predict", model, "--files", files["bank"], files["shop"]).exit_code == 0


def party_files(folder, count=60):
    """Two parties whose ids stand in columns of other names, and are alike only without leading zeros."""
    for name, key, form, columns in (
        ("bank", "customer", "{:05d}", "income,churned"),
        ("shop", "Kunden-Nr", "{}", "spent"),
    ):
        rows = [f"{form.format(row)},{row % 7},{row % 2}" for row in range(80)]
        rows = rows if name == "bank" else [row.rpartition(",")[0] for row in rows]
        for end, some in (("", rows[:count]), ("-may", [*rows[60:], rows[60]])):
            (folder / f"{name}{end}.csv").write_text("\n".join([f"{key},{columns}", *some]) + "\n")
        label = 'label = "churned"\n' if name == "bank" else ""
        data = f'[data]\nsource = "{name}.csv"\nkey = "{key}"\n{label}ids = {{ zeros = "drop" }}\n'
        (folder / f"{name}.toml").write_text(f'name = "{name}"\n{data}')
    return folder / "bank.toml", folder / "shop.toml"


def test_a_model_of_party_files_reads_new_rows_as_these_say(tmp_path):
    words = ("--files", *party_files(tmp_path), "--set", "method.trainer.epochs=2", "--model", tmp_path / "model")
    assert call("run", "FedOnce", *words).exit_code == 0
    new = ("--files", tmp_path / "bank-may.csv", tmp_path / "shop-may.csv")
    scores = call("predict", tmp_path / "model", *new)
    assert scores.exit_code == 0, scores.output
    assert [line.split(",")[0] for line in scores.stdout.splitlines()[1:]] == [str(row) for row in range(60, 80)]
    added = call("add", tmp_path / "model", *new, "--accept")
    assert "shop sent answers about 20 people" in added.stdout, added.output
    kept = [path.read_bytes() for path in (tmp_path / "model").rglob("*") if path.is_file()]
    assert not any(b"bank.csv" in one for one in kept)


@pytest.mark.parametrize("end", ["csv", "toml"])
def test_a_party_joins_a_model_of_party_files(tmp_path, end):
    words = ("--files", *party_files(tmp_path), "--set", "method.trainer.epochs=2", "--model", tmp_path / "model")
    call("run", "FedOnce", *words)
    (tmp_path / "insurer.csv").write_text("customer,age\n" + "".join(f"{row},{row % 5}\n" for row in range(80)))
    data = '[data]\nsource = "insurer.csv"\nkey = "customer"\nids = { zeros = "drop" }\n'
    (tmp_path / "insurer.toml").write_text(f'name = "insurer"\n{data}')
    joined = call("add", tmp_path / "model", "--party", f"insurer={tmp_path / 'insurer'}.{end}")
    assert "insurer sent answers about" in joined.stdout, joined.output
    new = [tmp_path / name for name in ("bank-may.csv", "shop-may.csv", "insurer.csv")]
    assert call("predict", tmp_path / "model", "--files", *new).stdout.count(",all,shop+insurer\n") == 20


def test_a_model_that_keeps_no_answers_says_that_rows_cannot_be_added(tmp_path):
    words = ("--files", *party_files(tmp_path), "--set", "method.learner.type=LinearModel")
    assert call("run", "Rap", *words, "--model", tmp_path / "model").exit_code == 0
    refused = call("add", tmp_path / "model", "--files", tmp_path / "bank-may.csv", tmp_path / "shop-may.csv")
    assert "the model of Rap keeps no answers, so rows cannot be added to it; train it again" in refused.stderr


@pytest.mark.parametrize("method", ["Rap", "VerticalXgboost"])
def test_a_method_that_needs_everybody_says_whose_rows_are_missing(tmp_path, method):
    words = ("--files", *party_files(tmp_path), "--model", tmp_path / "model")
    assert call("run", method, *words).exit_code == 0
    refused = call("predict", tmp_path / "model", "--files", tmp_path / "bank-may.csv")
    assert refused.stderr.splitlines()[-1].startswith(
        f"Error: {method} predicts with all parties, and shop is not there; give the rows of everybody"
    )


def test_a_model_of_few_rows_is_saved_although_no_head_can_be_refitted(tmp_path):
    words = ("--files", *party_files(tmp_path, count=12), "--model", tmp_path / "model")
    saved = call("run", "Linear", *words)
    assert saved.exit_code == 0, saved.output
    assert call("predict", tmp_path / "model", "--files", tmp_path / "bank-may.csv", "--absent", "zeros").exit_code == 0
    refused = call("predict", tmp_path / "model", "--files", tmp_path / "bank-may.csv", "--absent", "refit")
    assert "only 9 training rows are known to bank together: too few to refit a head" in refused.stderr
