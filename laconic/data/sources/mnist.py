"""MNIST: which digit was written."""

from laconic.data.dataset import Dataset
from laconic.data.sources.reading import read_images


def mnist() -> Dataset:
    """Handwritten digits, 70,000 grey images of 28 x 28; label: the digit."""
    return read_images("mnist", "mnist.npz", tuple(str(digit) for digit in range(10)))
