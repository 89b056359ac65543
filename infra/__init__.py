"""What exists in the cloud, on the local machine and in the cluster."""
