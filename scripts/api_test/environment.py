"""The virtual environment that Schemathesis runs in."""

import hashlib
import os
import shutil
import subprocess
import sys
import venv

HERE = os.path.dirname(os.path.abspath(__file__))
REQUIREMENTS = os.path.join(HERE, "requirements.txt")


def schemathesis(target):
    """The path of the program, installed below `target` unless it is."""
    if sys.version_info < (3, 11):
        raise SystemExit(f"api-test: Python {sys.version.split()[0]} is too old: 3.11 is needed")
    with open(REQUIREMENTS, "rb") as file:
        wanted = f"{sys.version_info[:2]} {hashlib.sha256(file.read()).hexdigest()}"
    folder = os.path.join(target, "schemathesis")
    # Written last: half an installation has none.
    mark = os.path.join(folder, "installed")
    if not os.path.exists(mark) or open(mark, encoding="utf-8").read() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        pip = [os.path.join(folder, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--require-hashes", "--only-binary", ":all:", "-r", REQUIREMENTS], check=True)
        with open(mark, "w", encoding="utf-8") as file:
            file.write(wanted)
    return os.path.join(folder, "bin", "schemathesis")
