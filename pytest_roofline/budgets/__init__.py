"""Budgets in a file: read strictly, resolved by test and device, ratcheted by measurements, with its comments kept.

`document` reads the file, `patterns` says which entry speaks for a test, `edits` changes figures in its text, `updates`
decides which, and `coverage` finds entries that no test of the suite fits.
"""
