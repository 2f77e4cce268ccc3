"""The command line: ``raytide``. Its modules import Ray and PyTorch only when a command needs them."""
