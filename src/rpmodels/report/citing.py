"""How the method and the library are cited."""

from rpmodels.versions import __version__

PAPER = """@inproceedings{walker2023recognition,
  title = {Unsupervised representation learning with recognition-parametrised probabilistic models},
  author = {Walker, William I. and Soulat, Hugo and Yu, Changmin and Sahani, Maneesh},
  booktitle = {Proceedings of the 26th International Conference on Artificial Intelligence and Statistics (AISTATS)},
  series = {Proceedings of Machine Learning Research},
  volume = {206},
  year = {2023}
}"""
LIBRARY = f"""@software{{rpmodels,
  title = {{rpmodels: recognition-parametrised models in Python}},
  author = {{{{The rpmodels developers}}}},
  version = {{{__version__}}},
  year = {{2026}}
}}"""


def bibtex() -> str:
    """The paper, then the library."""
    return f"{PAPER}\n\n{LIBRARY}"
