"""Feature maps are the same for everybody, learn from no party's rows, and are as wide as asked for."""

import msgspec
import numpy as np
import pytest
import torch

from laconic.learn.features import (
    Columns,
    Convolutions,
    FrozenEncoder,
    Photographs,
    PublicRows,
    RandomFourier,
    RandomRelu,
    Whitened,
    digest_of_file,
    draw_once,
)

RNG = np.random.default_rng(0)
IMAGES = RNG.standard_normal((40, 1, 12, 12)).astype(np.float32)
ROWS = RNG.standard_normal((40, 7)).astype(np.float32)


def nobody():
    raise AssertionError("this map may not look at public rows")


def features(chosen, x, public=nobody):
    return chosen.apply(chosen.draw(x.shape[1:], public), x)


@pytest.mark.parametrize(
    ("chosen", "x", "width"),
    [
        (Columns(), ROWS, 7),
        (Columns(), IMAGES, 144),
        (RandomFourier(width=20), ROWS, 27),
        (RandomRelu(width=20), ROWS, 27),
        (Convolutions(filters=5, kernel=3, grid=2), IMAGES, 20),
        (Convolutions(filters=5, kernel=3, filters_from=Photographs()), IMAGES, 45),
        (Whitened(of=Convolutions(filters=5, kernel=3), width=11), IMAGES, 11),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_map_is_drawn_again_alike_without_any_row(chosen, x, width):
    once, again = features(chosen, x), features(msgspec.json.decode(msgspec.json.encode(chosen), type=type(chosen)), x)
    assert once.shape == (40, width)
    assert once.dtype == np.float32
    assert (once == again).all()
    # Each row by itself: no row has a part in another's features. To float32, as products are taken in other blocks.
    assert features(chosen, x[3:4]) == pytest.approx(once[3:4], abs=1e-4)


@pytest.mark.parametrize(
    "chosen", [RandomFourier(), RandomRelu(), Convolutions(grid=2)], ids=lambda one: type(one).__name__
)
def test_a_width_left_open_is_what_fits(chosen):
    x = IMAGES if isinstance(chosen, Convolutions) else ROWS
    assert features(chosen.sized(60, x.shape[1:]), x).shape[1] == 60
    assert chosen.sized(60, x.shape[1:]).sized(999, x.shape[1:]) == chosen.sized(60, x.shape[1:])


def test_cosines_come_near_a_gaussian_kernel():
    waves = features(RandomFourier(width=20_000, scale=1.0), ROWS)[:, 7:]
    distances = ((ROWS[:, None] - ROWS) ** 2).sum(axis=2)
    # Off by the root of 20,000 draws, times about 4 for the worst of 1,600 pairs.
    assert np.abs(waves @ waves.T / 20_000 - np.exp(-distances / 2 / 7)).max() < 0.04


@pytest.mark.parametrize(
    "chosen", [Convolutions(filters=4, filters_from=PublicRows()), Whitened(width=5, by=PublicRows())]
)
def test_maps_of_public_rows_ask_for_them_and_others_do_not(chosen):
    assert chosen.needs_public
    weights = chosen.draw(IMAGES.shape[1:], lambda: IMAGES)
    assert np.isfinite(chosen.apply(weights, IMAGES)).all()
    other = chosen.draw(IMAGES.shape[1:], lambda: IMAGES[:20])
    assert any((weights[name] != other[name]).any() for name in weights)
    assert draw_once(chosen, IMAGES.shape[1:], lambda: IMAGES) is draw_once(chosen, IMAGES.shape[1:], lambda: IMAGES)


def test_whitened_features_of_its_own_images_are_of_one_size():
    chosen = Whitened(of=Columns(), width=3, by=PublicRows())
    found = features(chosen, ROWS, lambda: ROWS)
    assert found.mean(axis=0) == pytest.approx(0, abs=1e-5)
    assert found.std(axis=0) == pytest.approx(1, abs=0.05)


@pytest.mark.slow
def test_an_exported_encoder_of_ones_own_is_a_map(tmp_path):
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(144, 6), torch.nn.ReLU()).eval()
    some = torch.from_numpy(IMAGES[:2])
    program = torch.export.export(module, (some,), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=1000)},))
    path = str(tmp_path / "encoder.pt2")
    torch.export.save(program, path)
    chosen = FrozenEncoder(file=path, digest=digest_of_file(path))
    with torch.no_grad():
        assert features(chosen, IMAGES) == pytest.approx(module(torch.from_numpy(IMAGES)).numpy(), abs=1e-5)
    with pytest.raises(ValueError, match="same encoder"):
        features(FrozenEncoder(file=path, digest="other"), IMAGES)


def test_maps_refuse_rows_that_they_are_not_for():
    with pytest.raises(ValueError, match="for images"):
        features(Convolutions(filters=3), ROWS)
    with pytest.raises(ValueError, match="PublicRows"):
        features(Whitened(of=Columns(), width=3), ROWS)
    with pytest.raises(ValueError, match="0 for as many as fit"):
        RandomRelu(width=-1)
