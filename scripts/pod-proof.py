#!/usr/bin/env python3
"""pod-proof.py <root of the image> runs the daemon as the pod of the overlay user-namespaces would, and requires an isolated command.

Without a cluster, it makes the parts that matter: a user namespace whose user 65532 is no user of the machine, no capability, no way to get one, a
complete /proc, a read-only root, volumes that belong to the group of the pod, secrets that only this group reads, and the environment of
statefulset.yaml. No list of system calls and no AppArmor profile applies, as in the overlay. It needs root, changes the owners of the files in <root>, and
all directories above <root> must be open to others.
"""
import ctypes
import os
import re
import subprocess
import sys

SHIFT, RANGE, USER = 196608, 65536, 65532
NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
RDONLY, NOSUID, NODEV, REMOUNT, BIND, REC, PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
SET_NO_NEW_PRIVS, CAPBSET_DROP = 38, 24
libc = ctypes.CDLL(None, use_errno=True)

PROOF = """
toold serve & daemon=$!
for _ in $(seq 300); do if toold health >/dev/null 2>&1; then break; fi; sleep 0.1; done
toold call bash command='echo isolated' || exit 1
for fact in fs_read fs_write ipc net pids_limit processes_killed; do
    toold info | grep -F "isolation $fact held," || { toold info; exit 1; }
done
kill $daemon; wait $daemon
"""


def call(name, *args):
    args = [a.encode() if isinstance(a, str) else a for a in args]
    if getattr(libc, name)(*args) != 0:
        raise OSError(ctypes.get_errno(), f"{name} {args}: {os.strerror(ctypes.get_errno())}")


def prepare(root):
    """Writes the secrets, and gives all files to the users of the namespace."""
    for directory in ("proc", "dev", "tmp", "old", "etc/toold", "etc/toold-tls", "var/lib/toold", "workspace"):
        os.makedirs(f"{root}/{directory}", exist_ok=True)
    page = open("docs/how-to/run-in-kubernetes.md").read().split("# toold.yaml\n")[1].split("```")[0]
    with open(f"{root}/etc/toold/toold.yaml", "w") as f:
        f.write(re.sub("(?m)^   ", "", page))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=toold.toold.svc", "-days", "1", "-keyout",
                    f"{root}/etc/toold-tls/tls.key", "-out", f"{root}/etc/toold-tls/tls.crt"], check=True, stderr=subprocess.DEVNULL)
    for secret in ("toold/toold.yaml", "toold-tls/tls.key", "toold-tls/tls.crt"):
        os.chown(f"{root}/etc/{secret}", 0, USER)
        os.chmod(f"{root}/etc/{secret}", 0o440)
    for directory, _, files in os.walk(root):
        for path in [directory] + [os.path.join(directory, name) for name in files]:
            at = os.lstat(path)
            if at.st_uid < RANGE:
                os.lchown(path, at.st_uid + SHIFT, at.st_gid + SHIFT)


def enter(root):
    """Makes the root the root of this process, with the mounts of a container."""
    call("mount", None, "/", None, REC | PRIVATE, None)
    call("mount", root, root, None, BIND | REC, None)
    call("mount", "proc", f"{root}/proc", "proc", 0, None)
    call("mount", "tmpfs", f"{root}/dev", "tmpfs", NOSUID, "mode=755")
    for device in ("null", "zero", "full", "random", "urandom", "tty"):
        open(f"{root}/dev/{device}", "w").close()
        call("mount", f"/dev/{device}", f"{root}/dev/{device}", None, BIND, None)
    call("mount", "tmpfs", f"{root}/tmp", "tmpfs", NOSUID | NODEV, "mode=1777")
    for volume in ("var/lib/toold", "workspace"):
        call("mount", "tmpfs", f"{root}/{volume}", "tmpfs", NOSUID | NODEV, f"mode=2775,gid={USER}")
    os.chdir(root)
    call("pivot_root", ".", "old")
    call("umount2", "/old", 2)
    call("mount", None, "/", None, REMOUNT | BIND | RDONLY, None)


def run_pod(root, environment):
    enter(root)
    for capability in range(int(open("/proc/sys/kernel/cap_last_cap").read()) + 1):
        call("prctl", CAPBSET_DROP, capability, 0, 0, 0)
    os.setgroups([])
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    call("prctl", SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    os.execve("/bin/bash", ["bash", "-c", PROOF], environment)


def main():
    root = os.path.realpath(sys.argv[1])
    os.chdir(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    manifest = open("deploy/kubernetes/base/statefulset.yaml").read()
    environment = dict(re.findall(r'\{name: (TOOLD_\w+), value: "?([^"}]+)"?\}', manifest))
    environment["PATH"] = "/usr/local/bin:/usr/bin:/bin"
    prepare(root)
    ready, go = os.pipe(), os.pipe()
    pod = os.fork()
    if pod == 0:
        call("unshare", NEWUSER | NEWNS | NEWPID | NEWNET | NEWIPC | NEWUTS)
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        os.setgroups([])
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
        first = os.fork()  # process 1 of the pod
        if first == 0:
            run_pod(root, environment)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) & 255)
    os.read(ready[0], 1)
    for kind in ("uid", "gid"):
        with open(f"/proc/{pod}/{kind}_map", "w") as f:
            f.write(f"0 {SHIFT} {RANGE}")
    os.write(go[1], b"x")
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pod, 0)[1]))


main()
