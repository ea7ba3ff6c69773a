"""A run by mail gives what a run in one process gives, to the bit."""

import msgspec
import pytest

from laconic import read_plan
from laconic.deploy.coordinator import host
from laconic.deploy.execute import execute, federation_of
from laconic.deploy.sealed_answers import answer_envelope, seal_plan
from laconic.errors import PartyAbsent, PlanError, Waiting
from tests.deploy.conftest import World

FEDONCE = """\
[method]
type = "FedOnce"
precision = "float16"
[method.encoder]
type = "Pca"
dim = 2
[method.trainer]
type = "Sgd"
epochs = 5
"""
RAP = '[method]\ntype = "Rap"\n[method.learner]\ntype = "LinearModel"\n'
ONESHOT = """\
[method]
type = "OneShot"
width = 4
[method.local]
type = "FixMatchTab"
steps = 20
[method.trainer]
type = "Sgd"
epochs = 5
"""


def together(world, text):
    """The same plan in one process, where every party file can be read."""
    files = ", ".join(f'{name} = "{world.home(name)}/{name}.toml"' for name in world.parties)
    before, _, rest = text.partition("files = {")
    return execute(read_plan(f"{before}files = {{{files}}}\n{rest.partition(chr(10))[2]}"))


def assert_same(by_mail, in_process):
    assert by_mail.predictions == in_process.predictions
    assert by_mail.metrics == in_process.metrics
    for phase in ("align", "fit", "look", "final"):
        seen, expected = (
            msgspec.structs.replace(getattr(result, phase), seconds=0.0) for result in (by_mail, in_process)
        )
        assert seen == expected
    assert by_mail.wire == in_process.wire
    assert {_plain(one) for one in by_mail.releases} == {_plain(one) for one in in_process.releases}


def _plain(release):
    return msgspec.json.encode(release)


def seal_all(world):
    for name in world.parties[1:]:
        seal_plan(world.context(name), world.inbox / f"{name}.envelope")


def mail_until_done(world, most=10, ids=None):
    """Host, carry questions over, answer one party after another, and host again."""
    for turn in range(most):
        try:
            return host(world.context("bank", ids=ids), world.inbox), turn
        except Waiting as waiting:
            for name in waiting.names:
                (question,) = (world.inbox / "questions").glob(f"{name}-*.envelope")
                carried = question.rename(world.home(name) / question.name)
                out = world.inbox / f"{name}-{turn}.envelope"
                answer_envelope(world.context(name, ids=ids), carried, out)
    raise AssertionError("still waiting")


def test_a_hub_that_hosts_again_has_the_model_that_it_had(world):
    """Its noise is drawn once: two models with noise of their own would give away twice what one does."""
    world.plan(
        '[method]\ntype = "FedOnce"\n[method.encoder]\ntype = "PublicProjection"\n'
        '[method.trainer]\ntype = "DpSgd"\nsigma = 2.0\nepochs = 2\n'
    )
    seal_all(world)
    first, again = (host(world.context("bank"), world.inbox) for _ in range(2))
    assert first.predictions == again.predictions


@pytest.mark.parametrize("method", [FEDONCE, '[method]\ntype = "Linear"\n'])
def test_one_file_from_each_party_trains_as_one_process_does(world, method):
    text = world.plan(method)
    seal_all(world)
    assert_same(host(world.context("bank"), world.inbox), together(world, text))


def test_rap_goes_by_mail_with_its_server_at_the_label_holder(world):
    text = world.plan(RAP)
    seal_all(world)
    assert_same(host(world.context("bank"), world.inbox), together(world, text))


def test_one_shot_goes_by_two_uploads_and_one_download(world):
    text = world.plan(ONESHOT)
    seal_all(world)  # The digests of the agreed rows, which wait for nobody.
    result, turns = mail_until_done(world)
    assert turns == 2
    assert_same(result, together(world, text))


def test_few_shot_waits_for_what_the_hub_says_of_own_rows(world):
    """Parties with rows of their own cannot know beforehand what the hub thinks of them."""
    world.plan(ONESHOT.replace("OneShot", "FewShot"))
    agreed = world.root / "agreed.txt"
    agreed.write_text("\n".join(f"c{number:04d}" for number in range(80)))
    for name in world.parties[1:]:
        seal_plan(world.context(name, ids=agreed), world.inbox / f"{name}.envelope")
    result, turns = mail_until_done(world, ids=agreed)
    assert turns == 3
    assert [one.step for one in result.wire if one.phase == "fit" and one.party == "shop"] == [
        "begin_and_send",
        "learn_from_gradients",
        "learn_again",
    ]


def test_rows_are_matched_by_mail_too(world):
    text = world.plan(FEDONCE, match="ExactMatch")
    result, turns = mail_until_done(world)
    assert_same(result, together(world, text))
    assert turns == 4  # Ids, which of them to keep, a digest of them, and then the method's one question.


def test_rows_are_matched_privately_by_mail(tmp_path):
    world = World(tmp_path, parties=("bank", "shop"))
    text = world.plan('[method]\ntype = "Linear"\n', match="PrivateMatch")
    result, _ = mail_until_done(world, most=20)
    expected = together(world, text)
    assert result.predictions == expected.predictions
    assert result.align.bytes == expected.align.bytes


def test_an_answer_sealed_again_holds_the_same_after_private_matching(tmp_path):
    """The round of the last confirmation counts on from the first, however often the answer is made."""
    world = World(tmp_path, parties=("bank", "shop"))
    world.plan('[method]\ntype = "Linear"\n', match="PrivateMatch")
    for turn in range(20):
        with pytest.raises(Waiting):
            host(world.context("bank"), world.inbox)
        (question,) = (world.inbox / "questions").glob("shop-*.envelope")
        carried = question.rename(world.home("shop") / question.name)
        answer = answer_envelope(world.context("shop"), carried, world.inbox / f"{turn}.envelope")
        if answer.finished:
            break
    assert [blob.step for blob in answer.content.blobs] == ["give_columns", "show_fingerprint", "give_columns"]
    again = answer_envelope(world.context("shop"), carried, world.root / "again")
    assert again.content == answer.content


def test_a_party_by_mail_draws_chance_of_its_own_and_keeps_it(tmp_path):
    world = World(tmp_path, seed="own")
    text = world.plan(RAP)
    seal_all(world)
    drawn = world.trained_context("shop").party
    seal_all(world)
    assert world.trained_context("shop").party.seed == drawn.seed != 3
    assert host(world.context("bank"), world.inbox).predictions != together(world, text).predictions


def test_a_run_started_again_asks_and_changes_nothing(world):
    world.plan(FEDONCE)
    seal_all(world)
    first = host(world.context("bank"), world.inbox)
    for path in world.inbox.glob("*.envelope"):
        path.unlink()
    again = host(world.context("bank"), world.inbox)
    assert again.predictions == first.predictions
    assert again.wire == first.wire


def test_what_was_answered_is_sealed_again_without_a_second_release(world):
    world.plan(FEDONCE)
    place = world.context("shop")
    first = seal_plan(place, world.root / "first")
    again = seal_plan(world.context("shop"), world.root / "again")
    assert again.content == first.content
    assert again.cover.number != first.cover.number


def test_an_envelope_adds_little_to_what_it_carries(world):
    world.plan(FEDONCE)
    out = world.root / "shop.envelope"
    sealed = seal_plan(world.context("shop"), out)
    # Cover, signature, the ledger in the words of steps, and what the party signed of it.
    assert out.stat().st_size < 1.02 * sealed.cover.bytes + 2800


def test_a_party_that_the_run_does_without_counts_as_absent(world):
    world.plan(FEDONCE)
    seal_plan(world.context("shop"), world.inbox / "shop.envelope")
    with pytest.raises(Waiting, match="insurer"):
        host(world.context("bank"), world.inbox)
    result = host(world.context("bank"), world.inbox, without=("insurer",))
    assert {absence.party for absence in result.absences} == {"insurer"}


def test_a_method_that_needs_everybody_says_so(world):
    world.plan('[method]\ntype = "Linear"\n')
    seal_plan(world.context("shop"), world.inbox / "shop.envelope")
    with pytest.raises(PartyAbsent, match="insurer"):
        host(world.context("bank"), world.inbox, without=("insurer",))


def test_what_does_not_hang_on_rows_can_be_sealed_before_anybody_asks(world):
    world.plan('[method]\ntype = "LateFusion"\n', match="ExactMatch")
    sealed = seal_plan(world.context("shop"), world.root / "ids")
    assert [blob.step for blob in sealed.content.blobs] == ["show_ids"]
    assert not sealed.finished


def test_only_the_label_holder_hosts_and_only_others_seal(world):
    world.plan(FEDONCE)
    with pytest.raises(PlanError, match="bank hosts, and shop seals"):
        host(world.context("shop"), world.inbox)
    with pytest.raises(PlanError, match="start with `laconic host`"):
        seal_plan(world.context("bank"), world.root / "x")


def test_horizontal_methods_do_not_go_by_mail(world):
    world.plan('[method]\ntype = "FedAvg"\n')
    with pytest.raises(PlanError, match="horizontal"):
        world.context("shop")


def test_a_public_data_set_is_dealt_by_the_plan_for_trials(world):
    text = f'seed = 3\n{FEDONCE}\n[data]\nname = "breast_cancer"\nparties = 2\n'
    names = federation_of(read_plan(text).data, 3).names
    trial = World(world.root / "trial", parties=names)
    for name in names:
        (trial.home(name) / "plan.toml").write_text(text)
    seal_plan(trial.context(names[1]), trial.inbox / "shop.envelope")
    assert_same(host(trial.context(names[0]), trial.inbox), execute(read_plan(text)))


@pytest.mark.parametrize("name", ["shop", "bank"])
def test_a_party_learns_on_the_device_of_its_own_file(name, world):
    world.plan(FEDONCE)
    file = world.home(name) / f"{name}.toml"
    file.write_text(f'device = "cuda"\n{file.read_text()}')
    with pytest.raises(PlanError, match='device = "cuda": torch finds no such device on this machine'):
        seal_plan(world.context("shop"), world.inbox / "shop.envelope")
        host(world.context("bank"), world.inbox)
    assert (world.inbox / "shop.envelope").exists() == (name == "bank")
