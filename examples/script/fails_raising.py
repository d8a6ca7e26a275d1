prices = {"apple": "1.20", "pear": "n/a"}
print(sum(float(price) for price in prices.values()))
