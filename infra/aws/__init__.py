"""The cloud: an EKS cluster with a node group per pool, and what it needs around it."""
