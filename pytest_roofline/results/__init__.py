"""The file of results: written test by test while a run goes on, and read back."""
