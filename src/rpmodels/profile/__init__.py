"""The profile of a fit: what its data were like, so that data that do not belong can be told, and named."""

from rpmodels.profile.comparing import departures, profile_of
from rpmodels.profile.departure import Departure
from rpmodels.profile.overview import Overview, overviews
from rpmodels.profile.profile import Profile
from rpmodels.profile.shown import raw_of
from rpmodels.profile.trials import Told
from rpmodels.profile.watching import Watch

__all__ = ["Departure", "Overview", "Profile", "Told", "Watch", "departures", "overviews", "profile_of", "raw_of"]
