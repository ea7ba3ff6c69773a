"""Encoders with a price, or with nothing to hide."""

from typing import TypeAlias

from laconic.privacy.codebook import Codebook
from laconic.privacy.dpnat import DpNat
from laconic.privacy.dppca import DpPca
from laconic.privacy.projection import PublicProjection

PrivateEncoder: TypeAlias = DpPca | Codebook | DpNat | PublicProjection
