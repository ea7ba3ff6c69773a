import torch

from laconic.learn.train.semisupervised import flip, jitter, mask, punch, shade, shift, warp


def chance(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(rows=16):
    return torch.rand(rows, 2, 12, 8, generator=chance(9))


def test_views_keep_their_shape_and_leave_their_source_alone():
    x = pictures()
    before = x.clone()
    for view in (shift(x, 2, chance()), flip(x, chance()), warp(x, 20, 0.2, 0.1, chance()), shade(x, 0.3, chance()),
                 punch(x, 0.4, chance()), jitter(x, 0.1, chance())):  # fmt: skip
        assert view.shape == x.shape
        assert not torch.equal(view, x)
    assert torch.equal(x, before)


def test_the_same_chance_gives_the_same_view():
    x = pictures()
    assert torch.equal(warp(x, 20, 0.2, 0.1, chance(3)), warp(x, 20, 0.2, 0.1, chance(3)))
    assert not torch.equal(shift(x, 2, chance(3)), shift(x, 2, chance(4)))


def test_a_shift_moves_every_pixel_alike():
    x = torch.zeros(50, 1, 9, 9)
    x[:, :, 4, 4] = 1
    moved = shift(x, 2, chance())
    assert moved.sum(dim=(1, 2, 3)).tolist() == [1.0] * 50
    places = moved.flatten(1).argmax(dim=1)
    rows, columns = places // 9, places % 9
    assert rows.unique().tolist() == columns.unique().tolist() == [2, 3, 4, 5, 6]


def test_no_shift_and_no_warp_change_nothing():
    x = pictures()
    assert torch.equal(shift(x, 0, chance()), x)
    assert torch.allclose(warp(x, 0, 0, 0, chance()), x, atol=1e-5)


def test_about_half_of_the_images_are_mirrored():
    x = pictures(400)
    same = (flip(x, chance()) == x).all(dim=3).all(dim=2).all(dim=1)
    assert 0.4 < same.float().mean() < 0.6


def test_a_hole_hides_at_most_its_share_of_an_image():
    hidden = (punch(torch.ones(200, 1, 20, 20), 0.5, chance()) == 0).float().mean(dim=(1, 2, 3))
    assert 0.2 < hidden.max() <= 0.3
    assert hidden.min() > 0


def test_a_mask_keeps_the_share_asked_for_and_puts_the_rest_at_the_mean():
    view = mask(torch.ones(1000, 10), 0.8, chance())
    assert set(view.unique().tolist()) == {0.0, 1.0}
    assert abs(float(view.mean()) - 0.8) < 0.02
