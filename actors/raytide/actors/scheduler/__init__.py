"""The scheduler of the platform: the pure controller, bound to Ray, to the jobs' masters and to the state store."""
