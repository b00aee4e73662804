"""What other programs read of a run: one small module for each format, from the document of results to text.

Only true figures are exported: results that passed or missed their budget. What is bogus, inconclusive or not measured
is counted, and named where a format has words, but has no figure in any of them.
"""
