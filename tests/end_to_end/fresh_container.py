"""fresh_container.py ROOT FOLDER... -- PROGRAM ARGUMENT...: runs a program as in a slim container.

To be run by root in a new mount and PID namespace (`unshare --mount --pid --fork`). ROOT is an
empty folder, which becomes the root folder. In it are the system's shared libraries, /proc, a few
devices, /tmp, and the FOLDERs at their own paths; all but /tmp can only be read. There is no
compiler and no other program. The user is nobody, whose home can't be written to. The system calls
fail that Docker's default profile refuses to a container without further capabilities.
"""
import os
import pathlib
import subprocess
import sys

from system_call_filter import BPF, PERF_EVENT_OPEN, PIDFD_GETFD, REFUSE, USERFAULTFD, deny

LIBRARIES = ["/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/etc/ld.so.cache"]
DEVICES = ["/dev/null", "/dev/zero", "/dev/urandom"]
NOBODY = 65534
# mount, umount2, swapon, reboot, sethostname, init_module, delete_module, quotactl, add_key,
# request_key, keyctl, mbind, set_mempolicy, get_mempolicy, unshare, move_pages, setns, io_uring_*.
REFUSED = [165, 166, 167, 169, 170, 175, 176, 179, 248, 249, 250, 237, 238, 239, 272, 279, 308, 425,
           426, 427, PERF_EVENT_OPEN, BPF, USERFAULTFD, PIDFD_GETFD]
NOT_PERMITTED = 1  # EPERM


def mount(*words):
    subprocess.run(["mount", *map(str, words)], check=True)


def show(root, path):
    """Makes a file or folder of the machine visible in the new root, for reading."""
    place = root / str(path).lstrip("/")
    if os.path.isdir(path):
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    mount("--bind", path, place)
    mount("-o", "remount,bind,ro", place)


def main():
    root = pathlib.Path(sys.argv[1])
    end = sys.argv.index("--")
    mount("-t", "tmpfs", "-o", "mode=755", "none", root)
    (root / "tmp").mkdir()
    mount("-t", "tmpfs", "-o", "mode=1777", "none", root / "tmp")  # A FOLDER may lie below it.
    for path in [*LIBRARIES, *DEVICES, *sys.argv[2:end]]:
        show(root, path)
    for name in ("proc", "home/nobody", "etc"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "etc/passwd").write_text(f"nobody:x:{NOBODY}:{NOBODY}::/home/nobody:/bin/sh\n")
    mount("-t", "proc", "none", root / "proc")
    mount("-o", "remount,ro", root)
    os.chroot(root)
    os.chdir("/tmp")
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    deny(REFUSED, REFUSE | NOT_PERMITTED)
    program = sys.argv[end + 1:]
    os.execve(program[0], program, {"HOME": "/home/nobody", "PATH": os.path.dirname(program[0]),
                                    "LANG": "C.UTF-8"})


main()
