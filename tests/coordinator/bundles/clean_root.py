"""A root folder as of a fresh system, offline, in which a package is installed and run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.coordinator.bundles.small_wheels import without_a_network

SYSTEM_PYTHON = Path(f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}")
CANNOT_MOUNT = 32
"""Exit code of mount(8)."""
SCRIPT = """\
set -e
mount -t tmpfs none {root}
cd {root}
mkdir -p usr upper work opt etc tmp dev proc run var/lib/dpkg/updates var/lib/dpkg/info var/log
# What the system brings, such as Python, is there; what the package writes there stays in memory.
mount -t overlay overlay -o lowerdir=/usr,upperdir=upper,workdir=work usr
for name in bin sbin lib lib64; do if [ -L /$name ]; then ln -s usr/$name $name; fi; done
mount -t proc proc proc
touch dev/null && mount --bind /dev/null dev/null
touch dev/urandom && mount --bind /dev/urandom dev/urandom
cp /var/lib/dpkg/status var/lib/dpkg/status
dpkg --root={root} --log=/dev/null -i {package}
chroot {root} /opt/fleetledger/bin/fleetledger {words}
chroot {root} /usr/bin/dpkg -L fleetledger | grep -v site-packages
dpkg --root={root} --log=/dev/null -r fleetledger
if [ ! -e {root}/opt/fleetledger/bin/fleetledger ]; then echo removed; fi
"""


def installed_in_a_clean_root(package: Path, root: Path, words: str) -> str:
    """Install a package, run `fleetledger WORDS`, remove it; return what all of that said."""
    if not SYSTEM_PYTHON.exists() or os.geteuid() != 0:
        pytest.skip(f"needs {SYSTEM_PYTHON} and root")
    root.mkdir()
    script = SCRIPT.format(root=root, package=package, words=words)
    command = without_a_network("unshare", "-m", "sh", "-c", script)
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == CANNOT_MOUNT:
        pytest.skip(f"nothing may be mounted here: {done.stderr}")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
