"""The membership protocol of an elastic job, pure: no I/O, no clock, no Ray, no torch."""
