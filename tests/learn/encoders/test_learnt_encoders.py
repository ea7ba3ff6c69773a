"""Every encoder keeps the same promises; linear ones are what their names say."""

import msgspec
import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.decomposition import PCA
from torch.nn import functional

from laconic.learn.encoders.encoder import LinearEncoder, Pca, RandomProjection, WhitenedPca, not_rebuilt
from laconic.learn.encoders.learnt import AnyEncoder, Autoencoder, BestEncoder, Nat
from laconic.learn.nets.nets import Cnn, load, to_tensor
from laconic.learn.train.sgd import Sgd, evaluate
from laconic.privacy import Codebook, DpNat, DpPca, PublicProjection
from laconic.values import Array, Rng

SMALL = Cnn(channels=(4,), hidden=(8,))
ENCODERS: list[AnyEncoder] = [
    Pca(dim=3),
    WhitenedPca(dim=3),
    RandomProjection(dim=3),
    Nat(dim=3, epochs=3, image_net=SMALL),
    Autoencoder(dim=3, trainer=Sgd(epochs=2), image_net=SMALL),
    BestEncoder(dim=3),
    BestEncoder(dim=3, beside="autoencoder"),
]


def rng(seed: int = 0) -> Rng:
    return np.random.default_rng(seed)


def rows(count: int = 60, columns: int = 5) -> Array:
    return (rng(3).standard_normal((count, 4)) @ rng(4).standard_normal((4, columns))).astype(np.float32)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_rows_become_dim_numbers_that_follow_from_the_seed(encoder: AnyEncoder) -> None:
    x = rows()
    first, again = (encoder.encode(encoder.fit(x, rng(1)), x) for _ in "12")
    assert first.shape == (60, encoder.dim_for((5,)))
    assert first.dtype == np.float32
    assert np.array_equal(first, again)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_where_rows_lie_in_memory_changes_not_a_bit(encoder: AnyEncoder) -> None:
    # Another process keeps the same rows elsewhere, and fast matrix products may round by the address.
    x = rows()
    moved = np.frombuffer(b"1234" + x.tobytes(), np.float32)[1:].reshape(x.shape)
    first, second = (encoder.encode(encoder.fit(values, rng(1)), values) for values in (x, moved))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_images_are_encoded_too(encoder: AnyEncoder) -> None:
    images = rng().standard_normal((30, 1, 4, 6)).astype(np.float32)
    numbers = encoder.encode(encoder.fit(images, rng(1)), images)
    assert numbers.shape == (30, 3)
    assert numbers.std(axis=0).min() > 0


@pytest.mark.parametrize("encoder", ENCODERS)
def test_one_column_and_fewer_rows_than_a_batch_work(encoder: AnyEncoder) -> None:
    x = rows(count=7, columns=1)
    width = 1 if isinstance(encoder, LinearEncoder | BestEncoder) else 3
    assert encoder.encode(encoder.fit(x, rng()), x).shape == (7, width)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_what_is_learnt_is_a_net_that_can_be_trained_on(encoder: AnyEncoder) -> None:
    x = rows()
    weights = encoder.fit(x, rng(1))
    module = load(encoder.build((5,), weights), weights)
    assert np.array_equal(evaluate(module, [to_tensor(x)]).numpy(), encoder.encode(weights, x))


@pytest.mark.parametrize("encoder", ENCODERS)
def test_encoders_survive_being_written_as_text(encoder: AnyEncoder) -> None:
    assert msgspec.json.decode(msgspec.json.encode(encoder), type=AnyEncoder) == encoder


def test_pca_agrees_with_another_library_up_to_sign() -> None:
    x = rows()
    ours = Pca(dim=3).encode(Pca(dim=3).fit(x, rng()), x)
    theirs = PCA(n_components=3).fit_transform(x.astype(np.float64))
    assert np.abs(ours) == pytest.approx(np.abs(theirs), abs=1e-4)


def test_whitened_components_have_unit_covariance() -> None:
    x = rows()
    numbers = WhitenedPca(dim=3).encode(WhitenedPca(dim=3).fit(x, rng()), x)
    assert np.cov(numbers.T) == pytest.approx(np.eye(3), abs=1e-4)


def test_whitening_makes_directions_without_variance_zeros() -> None:
    x = np.repeat(rows(columns=1), 3, axis=1)
    numbers = WhitenedPca(dim=3).encode(WhitenedPca(dim=3).fit(x, rng()), x)
    assert numbers[:, 0].std() == pytest.approx(1, abs=0.02)
    assert np.abs(numbers[:, 1:]).max() < 1e-5


def test_random_projection_has_orthonormal_directions() -> None:
    directions = RandomProjection(dim=3).fit(rows(), rng())["1.weight"]
    assert directions @ directions.T == pytest.approx(np.eye(3), abs=1e-6)


def test_autoencoder_learns_to_restore() -> None:
    x = rows(200)
    encoder = Autoencoder(dim=4, trainer=Sgd(epochs=40, lr=3e-3))
    numbers = encoder.encode(encoder.fit(x, rng()), x)
    restored = numbers @ np.linalg.lstsq(numbers, x, rcond=None)[0]
    assert ((restored - x) ** 2).mean() < 0.2 * x.var()


@pytest.mark.parametrize("encoder", ENCODERS)
def test_every_encoder_finds_a_width_that_keeps_nearly_all_variance(encoder: AnyEncoder) -> None:
    free = msgspec.structs.replace(encoder, dim=None)
    x = np.repeat(rows(columns=3), 2, axis=1)  # six columns, of which three are copies
    assert free.encode(free.fit(x, rng()), x).shape == (60, 3)
    images = rng().standard_normal((20, 1, 6, 6)).astype(np.float32)
    assert free.encode(free.fit(images, rng()), images).shape[1] <= 32


def test_a_party_of_five_columns_is_not_halved() -> None:
    x = rng().standard_normal((200, 5)).astype(np.float32)
    assert BestEncoder().sized(x).dim == 5
    assert BestEncoder().sized(x, most=4).dim == 4
    assert BestEncoder(dim=2).sized(x).dim == 2


def test_many_columns_become_sixteen_numbers_at_most() -> None:
    x = rng().standard_normal((200, 40)).astype(np.float32)
    assert {type(one)().sized(x).dim for one in ENCODERS} == {16}


def test_an_encoder_with_noise_does_not_look_at_rows_for_its_width() -> None:
    x = np.repeat(rows(columns=1), 6, axis=1)
    for encoder in (DpPca(), PublicProjection(), DpNat(), Codebook()):
        assert encoder.sized(x) == encoder
        with pytest.raises(msgspec.ValidationError, match="Expected `int`, got `null`"):
            msgspec.convert({**msgspec.to_builtins(encoder), "dim": None}, type(encoder))


def test_the_default_sends_columns_by_rank_and_components_of_many() -> None:
    x = np.exp(rng().standard_normal((300, 20))).astype(np.float32)
    weights = BestEncoder().fit(x, rng())
    sent = BestEncoder().encode(weights, x)
    assert sent.shape == (300, 16)
    for place, column in enumerate(weights["scores.columns"]):
        assert spearmanr(sent[:, place], x[:, column])[0] == pytest.approx(1, abs=1e-6)
    assert np.abs(sent[:, :8]).max() < 4  # the longest tail of these columns is beyond 10 standard deviations
    components = Pca(dim=8).encode(Pca(dim=8).fit(x, rng()), x)
    assert sent[:, 8:] == pytest.approx(components, abs=1e-4)


def test_a_plan_of_an_earlier_version_still_halves() -> None:
    x = rows(columns=6)
    assert np.array_equal(BestEncoder(dim=0).fit(x, rng())["1.weight"], Pca(dim=3).fit(x, rng())["1.weight"])


def test_models_saved_with_components_alone_still_encode() -> None:
    x = rows(columns=6)
    before = Pca(dim=3).fit(x, rng())
    assert np.array_equal(BestEncoder().encode(before, x), Pca(dim=3).encode(before, x))


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_net_made_able_to_learn_starts_as_the_same_function(encoder: AnyEncoder) -> None:
    x = rows()
    weights = encoder.fit(x, rng(1))
    able = encoder.able_to_learn(weights, (5,), rng(2))
    assert np.array_equal(encoder.encode(able, x), encoder.encode(weights, x))


@pytest.mark.parametrize("encoder", [Pca(dim=1), BestEncoder(dim=1)])
def test_a_net_made_able_to_learn_can_learn_a_product_of_columns(encoder: AnyEncoder) -> None:
    x = rng().standard_normal((400, 2)).astype(np.float32)
    target = to_tensor(x[:, :1] * x[:, 1:])
    errors = {}
    for name in ("as it is", "able"):
        weights = encoder.fit(x, rng(1))
        weights = encoder.able_to_learn(weights, (2,), rng(2)) if name == "able" else weights
        module = load(encoder.build((2,), weights), weights)
        Sgd(epochs=60, lr=1e-2).fit(module, [to_tensor(x)], target, functional.mse_loss, rng(3))
        errors[name] = float(functional.mse_loss(evaluate(module, [to_tensor(x)]), target))
    assert errors["able"] < 0.2 < 0.5 < errors["as it is"]


def test_a_dimension_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="dim must be 1 or more, or left out for what suits the data, not -1"):
        Nat(dim=-1)


def levels(count: int = 600) -> Array:
    """Flags of forty levels, all equally frequent."""
    flags = np.eye(40)[rng(5).integers(0, 40, count)]
    return ((flags - flags.mean(axis=0)) / flags.std(axis=0)).astype(np.float32)


def test_the_default_takes_learnt_numbers_where_trees_rebuild_more_from_them() -> None:
    x = levels()
    encoder = BestEncoder(dim=16)
    weights = encoder.fit(x, rng(1))
    assert "learnt.3.bias" in weights
    assert encoder.encode(weights, x).shape == (600, 16)
    assert np.array_equal(encoder.encode(encoder.fit(x, rng(1)), x), encoder.encode(weights, x))
    sums = BestEncoder(dim=16, beside="components")
    assert "sums.bias" in sums.fit(x, rng(1))
    left = [not_rebuilt(one.encode(one.fit(x, rng(1)), x), x, 400) for one in (encoder, sums)]
    assert left[0] < 0.95 * left[1]


def test_the_default_keeps_components_where_columns_are_sums() -> None:
    x = (rng(5).standard_normal((600, 12)) @ rng(6).standard_normal((12, 30)) / 3).astype(np.float32)
    assert "sums.bias" in BestEncoder(dim=12).fit(x, rng(1))


def test_what_is_not_rebuilt_is_all_of_noise_and_nothing_of_a_copy() -> None:
    x = rng().standard_normal((600, 3)).astype(np.float32)
    assert not_rebuilt(rng(1).standard_normal((600, 3)).astype(np.float32), x, 400) > 0.95
    assert not_rebuilt(x, x, 400) < 0.1


def test_a_party_that_sends_ranks_alone_draws_no_randomness() -> None:
    drawn = rng(1)
    BestEncoder(beside="autoencoder").fit(rows(columns=5), drawn)
    assert drawn.random() == rng(1).random()
