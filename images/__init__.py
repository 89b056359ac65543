"""What runs in pods: the catalogue of images, and the command that builds them."""
