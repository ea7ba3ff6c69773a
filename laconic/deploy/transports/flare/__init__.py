"""NVIDIA FLARE as the transport between organisations."""
