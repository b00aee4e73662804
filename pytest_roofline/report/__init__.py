"""Reports: rounding and formatting happen here alone."""
