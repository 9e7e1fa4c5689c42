"""Every failure text of the library, in one place: what was expected, what came, what to do.

Functions return an exception for the caller to raise, or a warning text.
"""

from typing import TYPE_CHECKING

from rpmodels import lazy
from rpmodels.errors.adapting import *
from rpmodels.errors.building import *
from rpmodels.errors.commands import *
from rpmodels.errors.densities import *
from rpmodels.errors.evaluating import *
from rpmodels.errors.events import *
from rpmodels.errors.files import *
from rpmodels.errors.graphs import *
from rpmodels.errors.kinds import *
from rpmodels.errors.observations import *
from rpmodels.errors.plotting import *
from rpmodels.errors.results import *
from rpmodels.errors.series import *
from rpmodels.errors.streams import *
from rpmodels.errors.training import *
from rpmodels.errors.values import *

if TYPE_CHECKING:
    from rpmodels.errors.unfitted import NotFittedError as NotFittedError
    from rpmodels.errors.unfitted import not_fitted as not_fitted

__getattr__, __dir__ = lazy.attributes(__name__, names={"rpmodels.errors.unfitted": ("NotFittedError", "not_fitted")})
