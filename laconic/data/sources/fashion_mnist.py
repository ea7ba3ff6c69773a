"""Fashion-MNIST: which piece of clothing is in the picture."""

from laconic.data.dataset import Dataset
from laconic.data.sources.reading import read_images

_CLOTHES = ("T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")


def fashion_mnist() -> Dataset:
    """Pieces of clothing, 70,000 grey images of 28 x 28; label: one of ten kinds."""
    return read_images("fashion_mnist", "fashion_mnist.npz", _CLOTHES)
