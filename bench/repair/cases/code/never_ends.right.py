orders: list
least: float

index, chosen = 0, []
while index < len(orders):
    if orders[index]["total"] < least:
        index += 1
        continue
    chosen.append(orders[index]["id"])
    index += 1
result: list = chosen
