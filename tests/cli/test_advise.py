"""`laconic advise`: as a user runs it, on plain files, messy ones included."""

import json

from click.testing import CliRunner

from laconic.cli import main
from laconic.testing import draw


def call(*words):
    return CliRunner().invoke(main, [*map(str, words)], env={"COLUMNS": "300"})


def files(folder, rows=300):
    bank = "".join(f"{row},{row % 7},{'€ ' if row % 2 else ''}{row % 11}.50,{'YES' if row % 3 else 'no'}\n"
                   for row in range(rows))  # fmt: skip
    (folder / "bank.csv").write_text(f"id,visits,price,left\n{bank}")
    shop = "".join(f"{row},{(row * row) % 13},2013-{row % 12 + 1:02}-01\n" for row in range(rows))
    (folder / "shop.csv").write_text(f"id,z,since\n{shop}")
    return ("--files", folder / "bank.csv", folder / "shop.csv", "--id", "id", "--label", "left")


def test_it_names_candidates_with_costs_and_the_command_that_compares_them(tmp_path):
    named = files(tmp_path)
    found = call("advise", *named, "--link", "2Mbit")
    assert found.exit_code == 0, found.output
    assert "For 2 parties with 216 training rows that all share, at 2 Mbit/s" in found.stdout
    assert "What leaves: a few numbers for each row, made from its columns" in found.stdout
    assert "Not SplitNN: gives labels away, which may not leave." in found.stdout
    command = found.stdout.split("To compare them on your rows: ")[1].strip()
    assert command == f"laconic compare FedOnce LocalDp --files {named[1]} {named[2]} --id id --label left"
    assert "price: numeric" in found.stderr


def test_the_estimate_is_what_the_run_then_sends(tmp_path):
    named = files(tmp_path)
    advice = json.loads(call("advise", *named, "--json").stdout)
    ran = json.loads(call("run", "FedOnce", *named, "--json").stdout)
    crossed = ran["fit"]["bytes_up"] + ran["fit"]["bytes_down"]
    assert abs(advice["candidates"][0]["bytes"] / crossed - 1) < 0.05
    assert advice["candidates"][0]["rounds"] == ran["fit"]["rounds"]


def test_a_plan_and_files_with_other_rows_are_advised_too(tmp_path):
    named = files(tmp_path)
    (tmp_path / "plan.toml").write_text(call("plan", "FedOnce", *named).stdout)
    found = call("advise", tmp_path / "plan.toml", "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["kind"] == "vertical"
    rows = (tmp_path / "bank.csv").read_text()
    (tmp_path / "north.csv").write_text(rows)
    found = call(
        "advise", "--files", tmp_path / "north.csv", tmp_path / "bank.csv", "--label", "left", "--exchanges", 1
    )
    assert found.exit_code == 0, found.output
    assert "Analytic" in found.stdout
    assert "Not Scaffold: takes 20 exchanges, and 1 are allowed." in found.stdout


def test_messy_files_are_advised_or_refused_with_one_clear_error(tmp_path):
    for seed in (6, 11):
        messy = draw(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        paths = messy.write(folder)
        named = [str(path) for path in (paths.values() if isinstance(paths, dict) else paths)]
        words = ["advise", "--files", *named, "--label", messy.label, *([] if messy.id is None else ["--id", messy.id])]
        found = call(*words)
        assert found.exit_code in (0, 2), found.output
        assert found.exception is None or isinstance(found.exception, SystemExit)
        assert (
            ("To compare them" in found.stdout)
            or ("No method is" in found.stdout)
            or found.stderr.splitlines()[-1].startswith("Error: ")
        )


def test_what_cannot_be_advised_is_said(tmp_path):
    named = files(tmp_path)
    assert "--link is a speed" in call("advise", *named, "--link", "fast").stderr
    assert "give a plan file" in call("advise", "FedOnce", *named).stderr
    assert "there is no plan file" in call("advise", "gone.toml").stderr
