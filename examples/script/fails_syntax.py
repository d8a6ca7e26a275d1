for number in range(3)
    print(number)
