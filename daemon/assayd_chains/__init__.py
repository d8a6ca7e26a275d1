"""Chains: from words or a failed attempt to a validated submission, by answers of providers.

A wing: the daemon starts without it, and then refuses repairs and generations.
"""
