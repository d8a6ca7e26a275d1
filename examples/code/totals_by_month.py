"""Add up invoices by month, exactly, and name the months without any."""

from collections import defaultdict
from datetime import date
from decimal import Decimal

invoices: list[tuple]  # of day and amount
since: date

totals: dict[str, Decimal] = defaultdict(Decimal)
for day, amount in invoices:
    if day >= since:
        totals[f"{day:%Y-%m}"] += amount

months = {f"{since.year}-{month:02}" for month in range(since.month, 13)}
result: dict = {"totals": dict(totals), "without": months - totals.keys()}
