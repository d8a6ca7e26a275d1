total = 0
while total >= 0:
    total += 1
result: int = total
