def test_waits_for_ever():
    answered = False
    while not answered:
        pass
