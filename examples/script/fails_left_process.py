import subprocess

# The script ends, and the server that it started does not.
subprocess.Popen(["python3.11", "-c", "import signal; signal.pause()"], start_new_session=True)
