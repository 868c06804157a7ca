"""Python's protocols over symbolic values: attributes, operators, items, iteration, truth, hashing."""
