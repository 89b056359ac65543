"""Any cluster with the platform on it, seen through kubectl."""
