"""The kinds of submission, a folder each; `registry` finds them."""
