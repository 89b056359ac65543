"""What runs in pods: the catalogue of images and how they are built."""
