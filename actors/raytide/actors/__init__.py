"""Ray actors: the job master, the replicas that own slots, warm standbys, and handles to running jobs."""
