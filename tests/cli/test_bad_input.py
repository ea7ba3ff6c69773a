import pytest
from click.testing import CliRunner

from laconic.cli import main

GOOD = "customer,age,churned\n" + "".join(f"c{row},{row % 37},{'yes' if row % 3 else 'no'}\n" for row in range(60))
OTHER = "customer,spent\n" + "".join(f"c{row},{row % 41}\n" for row in range(60))


def refused(*words, code=2):
    """What is said on standard error: one line, and nothing on standard output."""
    outcome = CliRunner().invoke(main, words)
    assert outcome.exit_code == code, outcome.output
    assert outcome.stdout == ""
    # What the files hold is read aloud before; the error itself is one line, the last.
    *before, said = outcome.stderr.splitlines()
    said_before = ("  ", "Before it starts: ")
    assert all(line.startswith(said_before) or " rows, " in line for line in before)
    assert said.startswith("Error: ")
    return said


@pytest.fixture
def files(tmp_path):
    def write(bank=GOOD, shop=OTHER):
        (tmp_path / "bank.csv").write_text(bank)
        (tmp_path / "shop.csv").write_text(shop)
        paths = ("--files", str(tmp_path / "bank.csv"), str(tmp_path / "shop.csv"))
        return ("run", "FedOnce", *paths, "--id", "customer", "--label", "churned", "--set", "method.trainer.epochs=1")

    return write


def test_good_files_run(files):
    assert CliRunner().invoke(main, files()).exit_code == 0


def test_an_unknown_method_is_refused_with_the_nearest():
    assert "did you mean FedOnce?" in refused("run", "FedOnse", "--data", "digits")


def test_an_unknown_key_is_named_in_full():
    said = refused(
        "run", "FedOnce", "--data", "digits", "--set", "method.encoder.type=Pca", "--set", "method.encoder.dmi=5"
    )
    assert "method.encoder.dmi" in said
    assert "did you mean method.encoder.dim?" in said


def test_an_encoder_for_a_method_without_one_is_refused():
    assert "there is no setting method.encoder" in refused("run", "SplitNN", "--data", "digits", "--encoder", "Pca")


def test_local_learning_that_does_not_suit_the_data_is_refused_with_what_to_type(files):
    _, _, *rest = files()
    words = ("run", "OneShot", *rest, "--set", "method.local.steps=2")
    said = refused(*words)
    advice = "--set method.local.type=FixMatchTab"
    assert advice in said
    assert CliRunner().invoke(main, (*words, *advice.split())).exit_code == 0


def test_a_setting_without_a_value_is_refused():
    assert "KEY=VALUE" in refused("run", "FedOnce", "--data", "digits", "--set", "method.encoder.dim")


def test_no_data_at_all_is_refused():
    assert "laconic data" in refused("run", "FedOnce")


def test_unknown_data_is_refused_with_the_known():
    assert "breast_cancer" in refused("run", "Solo", "--data", "breast_cancre")


def test_data_whose_files_are_not_there_says_which_variable_to_set(monkeypatch):
    monkeypatch.delenv("LACONIC_DATA", raising=False)
    assert "LACONIC_DATA" in refused("run", "Solo", "--data", "phishing")


def test_more_parties_than_columns_are_refused():
    assert "too few for 31 parties" in refused("run", "Solo", "--data", "breast_cancer", "--parties", "31")


def test_an_epsilon_nobody_can_keep_is_refused():
    said = refused("run", "SplitNN", "--data", "breast_cancer", "--set", "budget.epsilon=2")
    assert "open releases" in said


def test_a_missing_plan_file_is_refused():
    assert "there is no plan file no.toml" in refused("run", "no.toml")


def test_a_plan_file_with_an_unknown_key_is_refused(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text('sede = 1\n[method]\ntype = "Solo"\n[data]\nname = "digits"\n')
    assert "no setting sede (found: 1); did you mean seed?" in refused("run", str(path))


def test_a_folder_to_save_in_that_is_not_there_is_refused_before_the_run(tmp_path):
    assert "there is no folder" in refused("run", "Solo", "--data", "digits", "--save", str(tmp_path / "no" / "a.json"))


@pytest.mark.parametrize(
    "words",
    [
        ("run", "Solo", "--data", "breast_cancer", "--save", "/proc/x.json"),
        ("run", "Solo", "--data", "breast_cancer", "--model", "/proc/m"),
        ("compare", "Solo", "--data", "breast_cancer", "--save", "{}/a.jsonl", "--report", "/proc/x.html"),
        ("compare", "Solo", "--data", "breast_cancer", "--save", "/proc/x.jsonl"),
        ("report", "{}/run.json", "-o", "/proc/x.html"),
        ("disclose", "{}/run.json", "--party", "shop", "-o", "/proc/x.html"),
        ("predict", "{}", "--out", "/proc/x.csv"),
        ("host", "{}/plan.toml", "--site", "{}", "--save", "/proc/x.json"),
    ],
)
def test_what_cannot_be_written_is_said_before_the_work(words, tmp_path, monkeypatch):
    def work(*_, **__):
        raise AssertionError("the work was begun")

    # What imports `execute` first: if it were loaded afterwards, it would keep the `execute` of this test for good.
    monkeypatch.setattr("laconic.audit.leakage.execute_and_keep", work)
    for name in ("tuning.compare_plans", "tuning.read_results", "execute.execute", "execute.execute_and_keep"):
        monkeypatch.setattr(f"laconic.deploy.{name}", work)
    monkeypatch.setattr("laconic.inference.predict.load_model", work)
    (tmp_path / "plan.toml").touch()
    assert "cannot write /proc/" in refused(*(word.format(tmp_path) for word in words))
    assert [path.name for path in tmp_path.iterdir()] == ["plan.toml"]


def test_a_budget_too_small_for_any_use_ends_with_failure():
    said = refused("run", "FedOnce", "--data", "breast_cancer", "--max-bytes", "1000", code=1)
    assert "over the budget of 1,000" in said


def test_a_missing_file_is_refused():
    words = ("--files", "nowhere.csv", "gone.csv", "--id", "customer", "--label", "churned")
    assert "there is no file nowhere.csv" in refused("run", "FedOnce", *words)


def test_files_without_an_id_column_named_are_refused():
    assert "files need id" in refused("run", "FedOnce", "--files", "a.csv", "b.csv", "--label", "churned")


OWN = ("--files", "bank.csv", "shop.csv", "--id", "customer", "--label", "churned")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*OWN, "--data", "digits"), "--data digits and --files are two different sources"),
        (("--data", "digits", *OWN), "--data digits and --files are two different sources"),
        ((*OWN, "--parties", "3"), "data.parties (--parties) is for a public data set"),
        ((*OWN, "--set", "data.cut.type=Equal"), "data.cut.type is for a public data set"),
        (("--data", "digits", "--label", "churned"), "data.label (--label) is for your own files"),
    ],
)
def test_options_of_which_one_would_be_ignored_are_refused(words, said):
    assert said in refused("run", "FedOnce", *words)


def test_a_plan_on_files_is_not_put_on_other_data_by_an_option(tmp_path):
    plan, other = tmp_path / "plan.toml", tmp_path / "other.toml"
    plan.write_text('[method]\ntype = "Solo"\n[data]\nfiles = ["bank.csv"]\nid = "customer"\nlabel = "churned"\n')
    assert "is on bank.csv, which --data would replace" in refused("run", str(plan), "--data", "digits")
    assert "data.parties (--parties) is for" in refused("run", str(plan), "--parties", "3")
    other.write_text('[method]\ntype = "Solo"\n[data]\nname = "digits"\n')
    assert "is on digits, which --files would replace" in refused("run", str(other), *OWN)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"shop": ""}, "is empty"),
        ({"shop": OTHER.replace("customer", "client", 1)}, "no id column 'customer'"),
        ({"bank": GOOD.replace("churned", "left")}, "no party has the label column 'churned'"),
        ({"shop": OTHER.replace("spent", "churned")}, "at bank and shop"),
        ({"shop": OTHER.replace("c", "d")}, ""),
        ({"shop": "customer\n" + "".join(f"c{row}\n" for row in range(60))}, "shop"),
        ({"bank": GOOD.replace("no", "yes")}, "churned"),
        ({"shop": OTHER.replace("\nc", "\nC")}, "They differ in case only: write them in the same way"),
        ({"shop": OTHER.replace("\nc", "\nc ")}, "They differ in white space only"),
    ],
)
def test_files_that_cannot_be_used_say_why(files, change, said):
    assert said in refused(*files(**change))


def test_too_few_shared_rows_to_score_on_are_refused_before_fitting(files):
    shop = "customer,spent\n" + "".join(f"c{row},{row % 5}\n" for row in (*range(2), *range(100, 130)))
    assert "of 2 rows, 0 are to be scored on (cut 'test')" in refused(*files(shop=shop))


def test_a_table_in_place_of_a_party_file_says_how_to_write_one(files, tmp_path):
    files()
    assert 'such as bank.toml, that says name, data.source = "bank.csv"' in refused(
        "doctor", str(tmp_path / "bank.csv")
    )
    said = refused("run", "FedOnce", "--files", "bank.toml", "shop.csv", "--id", "customer", "--label", "churned")
    assert "bank.toml is a party file and shop.csv is a table" in said


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            "method.local.threshold=0.95",
            "--set method.local.threshold.type=Fixed --set method.local.threshold.level=0.95",
        ),
        ("method.local=FixMacht", "its type is one of: "),
        ("budget=4", "--set budget.max_bytes=4"),
        ("data.hub=none", 'by name or by place from 0, such as data.hub="bank" or data.hub=0'),
    ],
)
def test_a_value_where_settings_or_a_party_are_wanted_gets_an_example(setting, said):
    assert said in refused("run", "OneShot", "--data", "breast_cancer", "--set", setting)


def test_debug_shows_where_an_error_came_from():
    outcome = CliRunner().invoke(main, ("run", "FedOnse", "--data", "digits", "--debug"))
    assert outcome.exit_code == 1
    assert type(outcome.exception).__name__ == "PlanError"


@pytest.fixture
def odd(tmp_path):
    """Files that are not what their names say, and a folder."""
    (tmp_path / "empty.toml").touch()
    (tmp_path / "binary.toml").write_bytes(b"\x00\x01\xff\xfe")
    (tmp_path / "words.toml").write_text("hello")
    (tmp_path / "empty.json").touch()
    (tmp_path / "binary.json").write_bytes(b"\x00\x01\xff\xfe")
    (tmp_path / "other.json").write_text('{"a": 1}')
    (tmp_path / "rows.csv").write_text(GOOD)
    (tmp_path / "folder").mkdir()
    (tmp_path / "model" / "bank").mkdir(parents=True)
    (tmp_path / "model" / "bank" / "model.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize("name", ["empty.toml", "binary.toml", "words.toml"])
@pytest.mark.parametrize("command", ["run", "plan", "compare", "doctor", "seal"])
def test_a_file_that_is_no_plan_or_party_is_named(odd, command, name):
    party = ("--party", str(odd / name)) if command == "seal" else ()
    assert str(odd / name) in refused(command, str(odd / name), *party)


@pytest.mark.parametrize("name", ["empty.json", "binary.json", "other.json", "rows.csv"])
@pytest.mark.parametrize("command", ["report", "disclose", "audit"])
def test_a_file_that_is_no_result_is_named(odd, command, name):
    more = {"report": ("-o", str(odd / "page.html")), "disclose": ("--party", "shop"), "audit": ()}[command]
    assert f"{odd / name} holds no result" in refused(command, str(odd / name), *more)


def test_a_folder_is_no_result(odd):
    more = ("-o", str(odd / "page.html"))
    assert f"{odd / 'model'} is a folder, not a result file" in refused("report", str(odd / "model"), *more)


def test_a_folder_that_only_looks_like_a_model_is_not_disclosed(odd):
    assert "is not the head of a part" in refused("disclose", str(odd / "model"), "--party", "shop")


@pytest.mark.parametrize("command", ["predict", "add", "forget"])
def test_a_folder_without_a_model_is_said_to_have_none(odd, command):
    folder = str(odd / "folder")
    words = {"predict": (folder,), "add": (folder, "--files", "bank.csv"), "forget": ("shop", folder)}[command]
    assert f"{folder} holds no model; save one with: laconic run" in refused(command, *words)


@pytest.mark.parametrize("command", ["run", "plan"])
def test_rows_or_a_model_in_place_of_a_method_are_sent_where_they_belong(odd, command):
    assert "your own files after --files" in refused(command, str(odd / "rows.csv"))
    assert f"laconic predict {odd / 'model'}" in refused(command, str(odd / "model"))
