"""The kinds of submission, each in a separate folder; the module `registry` finds them."""
