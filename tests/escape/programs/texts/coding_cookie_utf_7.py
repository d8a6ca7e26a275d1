# expect: completed
# -*- coding: utf-7 -*-
# What was checked is what runs: a text is decoded once, and not again by what it says of itself.
hidden = []
# +AAo-hidden.append('the cookie was obeyed')


def extract(path):
    return {"escaped": hidden}
