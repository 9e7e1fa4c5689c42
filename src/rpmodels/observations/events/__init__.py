"""Events (spike times) in any form that people keep them in, and the trials of counts that are made of them."""

from rpmodels.observations.events.binning import Binned, binned
from rpmodels.observations.events.events import Events, Recorded
from rpmodels.observations.events.suspicion import MOST_COLUMNS, EventColumns, are_spike_times, events_in_columns
from rpmodels.observations.events.tables import events_of_table

__all__ = [
    "MOST_COLUMNS",
    "Binned",
    "EventColumns",
    "Events",
    "Recorded",
    "are_spike_times",
    "binned",
    "events_in_columns",
    "events_of_table",
]
