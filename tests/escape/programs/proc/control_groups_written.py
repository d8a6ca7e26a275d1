# expect: completed
import os


def extract(path):
    escaped = []
    for folder, _, files in os.walk("/sys/fs/cgroup"):
        for name in files:
            try:
                os.close(os.open(f"{folder}/{name}", os.O_WRONLY))
                escaped.append(f"{folder}/{name}")
            except OSError:
                pass
        try:
            os.mkdir(f"{folder}/inner")
            escaped.append(f"{folder}/inner")
        except OSError:
            pass
    return {"escaped": escaped}
