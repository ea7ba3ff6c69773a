# Where each public name is defined; it is imported when it is first used. Written by `make names`: do not edit.

from .encoders.encoder import Pca as Pca
from .encoders.encoder import RandomProjection as RandomProjection
from .encoders.encoder import WhitenedPca as WhitenedPca
from .features import Columns as Columns
from .features import Convolutions as Convolutions
from .features import Drawn as Drawn
from .features import FrozenEncoder as FrozenEncoder
from .features import Photographs as Photographs
from .features import PublicRows as PublicRows
from .features import RandomFourier as RandomFourier
from .features import RandomRelu as RandomRelu
from .features import Whitened as Whitened
from .models.classifiers import Logistic as Logistic
from .models.classifiers import Network as Network
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
