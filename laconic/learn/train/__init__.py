"""Training: losses, gradient descent, semi-supervised learning, ADMM."""
