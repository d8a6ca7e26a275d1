def check(candidate):
    assert candidate([1, 2, 3]) == 6, "hidden-4711"
    assert candidate([]) == 0
    assert candidate([10, -4]) == 6
    data = [5, 1]
    assert candidate(data) == 6
    assert data == [5, 1]
