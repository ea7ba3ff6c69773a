"""CIFAR-10: what is in a photograph."""

from typing import Final

import numpy as np

from laconic.core.columns import Column
from laconic.core.task import Task
from laconic.core.values import Array
from laconic.data.dataset import Dataset
from laconic.data.sources.reading import data_file

_THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_SIDE: Final = 32
_TILES: Final = 100  # images on a sheet, each way
_TRAINED: Final = 20000


def cifar10() -> Dataset:
    """Photographs, 30,000 colour images of 32 x 32; label: one of ten things."""
    sheets = [_read_sheet(f"cifar10/{sheet}.webp") for sheet in ("train_1", "train_2", "test")]
    with np.load(data_file("cifar10/labels.npz"), allow_pickle=False) as labels:
        y = np.concatenate([labels["y_train"][:_TRAINED], labels["y_test"]]).astype(np.int64)
    return Dataset(
        name="cifar10",
        raw=np.concatenate(sheets),
        columns=(Column("image", "pixels"),),
        y=y,
        task=Task(kind="multiclass", classes=_THINGS, label="class"),
        test=np.arange(_TRAINED, len(y)),
        note="the first 20,000 of the 50,000 published training images, and all test images",
    )


def _read_sheet(name: str) -> Array:
    """The images of one sheet, shape (10000, 3, 32, 32)."""
    from PIL import Image

    with Image.open(data_file(name)) as sheet:
        pixels = np.asarray(sheet.convert("RGB"))
    tiles = pixels.reshape(_TILES, _SIDE, _TILES, _SIDE, 3).transpose(0, 2, 4, 1, 3)
    return tiles.reshape(_TILES * _TILES, 3, _SIDE, _SIDE)
