"""How many broken submissions a provider repairs, and whether what it calls repaired is."""
