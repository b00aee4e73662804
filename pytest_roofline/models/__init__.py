"""What a model must move in one pass, by whatever description of it there is."""
