# Where each public name is defined; it is imported when it is first used. Written by `make names`: do not edit.

from .device import on_device as on_device
from .encoders.encoder import Pca as Pca
from .encoders.encoder import RandomProjection as RandomProjection
from .encoders.encoder import WhitenedPca as WhitenedPca
from .models.learners import Logistic as Logistic
from .models.learners import Network as Network
from .nets.ensembles import SummedHeads as SummedHeads
from .nets.layers import PatchNet as PatchNet
from .nets.layers import ResNet as ResNet
from .nets.nets import Cnn as Cnn
from .nets.nets import Joint as Joint
from .nets.nets import Mlp as Mlp
from .train.fixmatch import FixMatch as FixMatch
from .train.fixmatch import FixMatchTab as FixMatchTab
from .train.sgd import Sgd as Sgd
from .trees.dense_trees import Boosted as Boosted
from .trees.dense_trees import Forest as Forest
