orders: list[dict]
least: float


def net(order):
    return order["total"] / (1 + order["tax"])  # no order has it


result: list = [net(order) for order in orders]
