"""What the paper compares against: same networks, same loop."""

from rpmodels.paper.baselines.autoencoders import VQVAE, GumbelVAE, GumbelVQVAE
from rpmodels.paper.baselines.contrastive import DeepCCA, InfoNCE
from rpmodels.paper.baselines.gp_vae import SparseGPVAE
from rpmodels.paper.baselines.supervised import SupervisedNetwork

__all__ = ["VQVAE", "DeepCCA", "GumbelVAE", "GumbelVQVAE", "InfoNCE", "SparseGPVAE", "SupervisedNetwork"]
