"""How many requests in words come to code that does what was asked, and what a model is told on the way."""
