"""One script on every store, side by side."""

import subprocess
import sys

STORES = ["memory", "redis"]


def each(arguments):
    """Runs this script again with `arguments`, once for each store at the same time; whether all of them passed.

    What they print comes store by store. Whoever stops this stops them.
    """
    command = [sys.executable, sys.argv[0], *arguments]
    running = [
        subprocess.Popen([*command, "--store", store], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for store in STORES
    ]
    try:
        for process in running:
            sys.stdout.buffer.write(process.communicate()[0])
            sys.stdout.flush()
        return all(process.returncode == 0 for process in running)
    finally:
        for process in running:
            if process.poll() is None:
                process.terminate()
                process.wait()
