"""Offers rules that extract fields from paths after all code has failed validation.

Source: docs/repair.md.
"""
