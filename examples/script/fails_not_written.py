with open("report.txt", "w") as file:
    file.write("wrong name\n")
