"""A simulated world for the membership protocol: processes, network and faults in virtual time.

One :class:`~elastic_sim.world.World` holds a real ``Master`` and real ``Member`` objects; everything
around them (delays, collectives, the training loop, the cluster, the users) is simulated. All
randomness comes from one seed, so that a history can be told again.
"""
