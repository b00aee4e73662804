"""What changed between two runs of the same tests, and how much of it noise allows to be said. Pure arithmetic.

::

    cost       seconds per token of one sample                       of each raw sample of both runs
    speed      median cost of the old run / median cost of the new   above 1 is faster
    interval   of that ratio: each median lies in its own interval, whatever the distribution and however the
               measurement was stopped (`samples.sequential_interval`); 95 % for the four ends together

A shared host's bandwidth moves by a factor of two within minutes. Where memory bounds a pass, the ratio is taken twice:
as it is, and with every sample's time times the rate of the probes around it, which is what the device could have moved
meanwhile. The interval covers both, so that a run is called slower only where the clock says so and the device does not
explain it, and faster likewise. Where the caches of two runs grew to different lengths while they were measured, the
interval covers the ratio at the context that the test gave, too. Where that decides nothing the answer is that it does
not.

Nothing is compared that is no figure (bogus, inconclusive, not measured), or not of the same device and work: such rows
carry the reason. Not looked at: whether the two runs had the same code around the step.
"""
