"""Every call of the API as data: one module per subject builds them."""
