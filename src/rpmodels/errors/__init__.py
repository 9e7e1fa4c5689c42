"""Every failure text of the library, in one place: what was expected, what came, what to do.

Functions return an exception for the caller to raise, or a warning text.
"""

from rpmodels.errors.building import *
from rpmodels.errors.commands import *
from rpmodels.errors.evaluating import *
from rpmodels.errors.files import *
from rpmodels.errors.kinds import *
from rpmodels.errors.observations import *
from rpmodels.errors.results import *
from rpmodels.errors.series import *
from rpmodels.errors.training import *
from rpmodels.errors.values import *
