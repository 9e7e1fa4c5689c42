"""What the paper compares against: same networks, same loop."""

from rpmodels.baselines.autoencoders import VQVAE, GumbelVAE, GumbelVQVAE
from rpmodels.baselines.contrastive import DeepCCA, InfoNCE
from rpmodels.baselines.gp_vae import SparseGPVAE
from rpmodels.baselines.gpfa import GPFA
from rpmodels.baselines.supervised import SupervisedNetwork

__all__ = ["GPFA", "VQVAE", "DeepCCA", "GumbelVAE", "GumbelVQVAE", "InfoNCE", "SparseGPVAE", "SupervisedNetwork"]
