"""What we run: typed job builders, the manifests rendered from them, the package in the images."""
