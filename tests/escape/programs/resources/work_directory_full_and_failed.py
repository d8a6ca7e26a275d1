# expect: disk_limit work_directory_full
def extract(path):
    with open("big", "wb", buffering=0) as file:
        while True:
            file.write(bytes(2**20))
