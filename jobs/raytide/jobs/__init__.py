"""Training jobs to run, read and copy.

A *job module* is any importable module with

* ``loop(config)``: the training loop, written against :mod:`raytide.train`;
* ``CONFIG``: its default configuration, a flat ``dict`` of plain values;
* ``NOTE`` (optional): a sentence that users must read beside its results.

That is all ``raytide run MODULE`` and ``python -m MODULE`` need; :mod:`raytide.jobs.running` does the
rest. :mod:`~raytide.jobs.digits` and :mod:`~raytide.jobs.char_gpt` train on real data,
:mod:`~raytide.jobs.emulated` replaces a step's computation by a wait.
"""
