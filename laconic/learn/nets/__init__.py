"""Networks: layers, shapes, ensembles."""
