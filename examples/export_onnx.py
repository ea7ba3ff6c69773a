"""A saved model as ONNX files, run without this package's own code: `python -m examples.export_onnx FOLDER`.

The shop's file turns its columns into what it would send; the bank's takes that and its own columns, and predicts.
"""

import sys
from pathlib import Path

import numpy as np
import onnxruntime

from laconic import Equal, FedOnce, deal, load, save_model
from laconic.deploy import train
from laconic.inference import export_model


def main(folder: Path) -> float:
    """Train, save, export, and return how far the files are from the model at most."""
    method = FedOnce()
    fitted = train(method, deal(load("breast_cancer"), Equal(parties=2)), seed=0)
    save_model(fitted, folder / "model")
    files = export_model(folder / "model", folder / "onnx")
    sessions = {name: onnxruntime.InferenceSession(str(path)) for name, path in files.items()}
    rows = {one.name: one.data.part("test")[0] for one in (fitted.hub, *fitted.others)}
    (sent,) = sessions["shop"].run(None, {"shop": rows["shop"]})
    (said,) = sessions["bank"].run(None, {"bank": rows["bank"], "shop": sent})
    ours = method.predict_from(fitted.hub, {"bank": rows["bank"], "shop": sent}, np.arange(len(sent)))
    apart = float(np.max(np.abs(said - ours)))
    print(f"{', '.join(path.name for path in files.values())}: at most {apart:.1e} from the model")
    return apart


if __name__ == "__main__":
    main(Path(sys.argv[1]))
