"""Scheduling policies: how many slots each job gets, and where.

Third-party policies need not live here: the control core finds a policy by its dotted path
(``package.module:Class``) or by the entry point group ``raytide.policies``.
"""
