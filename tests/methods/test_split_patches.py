"""Split learning with nets that look for patches among rows without labels."""

import numpy as np
import pytest

from laconic.core import Party
from laconic.learn import PatchNet, Sgd
from laconic.methods.vertical.fedbcd import FedBCD
from laconic.methods.vertical.fedcvt import FedCVT
from laconic.methods.vertical.splitnn import SplitNN
from laconic.tables import Column, Table, Task
from laconic.testing import open_peers

CUTS = {"train": np.arange(40), "valid": np.arange(40, 45), "test": np.arange(45, 60), "own": np.arange(60, 80)}


@pytest.mark.parametrize("kind", [SplitNN, FedBCD, FedCVT])
def test_every_holder_of_images_looks_for_patches_the_label_holder_too(kind):
    rng = np.random.default_rng(0)
    images, y = (rng.random((2, 80, 1, 8, 8)) * 255).astype(np.uint8), rng.integers(3, size=80)
    columns, task = [Column("scan", kind="pixels")], Task(kind="multiclass", classes=("a", "b", "c"))
    hub = Party("bank", Table(images[0], columns, y=y, task=task, cuts=CUTS, party="bank"), 0)
    shop = Party("shop", Table(images[1], columns, cuts=CUTS, party="shop"), 0)
    method = kind(net=PatchNet(filters=4, final="relu"), trainer=Sgd(epochs=1))
    with open_peers(method, hub, (shop,)) as peers:
        list(method.fit(hub, peers))
    (own,) = (values for name, values in hub.memory["model"].items() if name.endswith("own.0.kernels"))
    for kernels in (own, shop.memory["net"]["0.kernels"]):
        # Filters that were found sum to zero; those that were drawn do not.
        np.testing.assert_allclose(kernels.sum(axis=(1, 2, 3)), 0, atol=1e-5)
