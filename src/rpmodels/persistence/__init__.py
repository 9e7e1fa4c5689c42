"""What goes to disk: one atomic writer, recipes of a model's parts, model files."""

from rpmodels.persistence.frugal import Frugal
from rpmodels.persistence.model_files import Opened, open_file, save_file
from rpmodels.persistence.plain import from_plain, to_plain
from rpmodels.persistence.recipes import handed_in, own_parts
from rpmodels.persistence.sealed import as_written
from rpmodels.persistence.states import load_state, save_state
from rpmodels.writing import write_atomically, write_json, write_text

__all__ = [
    "Frugal",
    "Opened",
    "as_written",
    "from_plain",
    "handed_in",
    "load_state",
    "open_file",
    "own_parts",
    "save_file",
    "save_state",
    "to_plain",
    "write_atomically",
    "write_json",
    "write_text",
]
