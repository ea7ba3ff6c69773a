"""One-shot VFL by mail, typed as a user types it; never are two parties at work at once."""

from click.testing import CliRunner

from laconic.cli import main
from tests.deploy.conftest import World
from tests.deploy.test_training import ONESHOT

PARTIES = ("bank", "shop")


def laconic(*words):
    return CliRunner().invoke(main, [*map(str, words)])


def test_one_shot_goes_by_mail_from_the_command_line(tmp_path):
    world = World(tmp_path, parties=PARTIES)
    world.plan(ONESHOT)
    at = {
        name: [world.home(name) / "plan.toml", "--party", world.home(name) / f"{name}.toml"] for name in world.parties
    }
    plan, *shop = at["shop"]
    bank = [*at["bank"], "--envelopes", world.inbox]
    first = laconic("seal", *at["shop"], "-o", world.inbox / "shop-0.envelope")
    assert "bank will ask more: answer what it sends with `laconic answer`" in first.output
    for turn in (1, 2):
        waiting = laconic("host", *bank)
        assert waiting.exit_code == 3
        question = world.inbox / "questions" / f"shop-fit-{turn}.envelope"
        assert waiting.output.count("take to shop: ") == 1
        assert f"take to shop: {question}" in waiting.output
        tried = laconic("answer", plan, question, *shop, "--dry-run")
        assert "Nothing was written and nothing was spent" in tried.output
        answered = laconic("answer", plan, question, *shop, "-o", world.inbox / f"shop-{turn}.envelope")
        assert answered.exit_code == 0, answered.output
    done = laconic("host", *bank, "--save", tmp_path / "result.json")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "result.json").exists()


def test_host_says_what_it_needs(tmp_path):
    (tmp_path / "plan.toml").write_text("")
    outcome = laconic("host", tmp_path / "plan.toml")
    assert outcome.exit_code == 2
    assert "--site FOLDER, or --envelopes FOLDER with --party FILE" in outcome.output


def test_opening_lists_what_came_and_ends_with_1_if_one_is_refused(tmp_path):
    world = World(tmp_path, parties=PARTIES)
    world.plan(ONESHOT)
    shop, bank = world.home("shop"), world.home("bank")
    laconic("seal", shop / "plan.toml", "--party", shop / "shop.toml", "-o", world.inbox / "shop.envelope")
    words = ("open", bank / "plan.toml", world.inbox, "--party", bank / "bank.toml")
    assert laconic(*words).output.startswith("shop.envelope: from shop, 120 rows")
    (world.inbox / "note.envelope").write_text("hello")
    listed = laconic(*words)
    assert listed.exit_code == 1
    assert "note.envelope: REFUSED: " in listed.output
