#!/usr/bin/env python3
"""Does what the commands of Docker below do, with runc and no daemon. For tests; needs root.

Usage: containers.py STATE run --rm [--name=NAME] [--network=none|host] [--read-only]
                         [--tmpfs=PATH]... [--user=UID:GID] [--volume=SOURCE:PATH[:ro]]...
                         IMAGE [COMMAND...]
       containers.py STATE stop NAME
       containers.py STATE compose --file=FILE up | exec SERVICE COMMAND... | down --volumes

The folder STATE has the only image: its files in `rootfs`, and what `buildah inspect` prints in
`image.json`. Volumes and logs go there, too. A service of a compose file does not start while there
is a file of its name in the folder `held`. The members of a compose file have addresses of their
own on a network of their own. What is in a compose file and not known here is refused.
"""

import argparse
import ctypes
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import yaml

IMAGE = "capstan"
# Docker's, for root. Other users have none of them.
CAPABILITIES = ["CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID",
                "CAP_KILL", "CAP_MKNOD", "CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP",
                "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT"]
STOP_SECONDS = 10
CLONE_NEWNET = 0x40000000  # of <sched.h>


def fail(text):
    sys.exit(f"containers: {text}")


def expect_known(what, found, known):
    unknown = set(found) - set(known)
    if unknown:
        fail(f"{what}: expected {', '.join(sorted(known))}, got {', '.join(sorted(unknown))}")


class Engine:
    """What all containers share. `runc` has its own state, so nobody else's containers are seen."""

    def __init__(self, state):
        self.state = os.path.abspath(state)
        with open(self.path("image.json"), encoding="utf-8") as text:
            self.image = json.load(text)["OCIv1"]["config"]

    def path(self, *names):
        return os.path.join(self.state, *names)

    def runc(self, *arguments, **options):
        return subprocess.run(("runc", f"--root={self.path('runc')}") +
                              arguments, check=False, **options)

    def volume(self, name, path):
        """A new volume belongs to whom the image's folder at this path belongs."""
        folder = self.path("volumes", name)
        if not os.path.isdir(folder):
            owner = os.stat(self.path("rootfs", path.lstrip("/")))
            os.makedirs(folder)
            os.chown(folder, owner.st_uid, owner.st_gid)
            os.chmod(folder, owner.st_mode & 0o7777)
        return folder


class Container:
    """One container: make it, change it, run it."""

    def __init__(self, engine, name, command):
        self.engine = engine
        self.name = name
        self.folder = engine.path("containers", name)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        # Its own folders, in which runc makes what is mounted there; the files are the image's.
        subprocess.run(["cp", "--archive", "--link", engine.path("rootfs"),
                        os.path.join(self.folder, "rootfs")], check=True)
        subprocess.run(["runc", "spec"], cwd=self.folder, check=True)
        with open(os.path.join(self.folder, "config.json"), encoding="utf-8") as text:
            self.spec = json.load(text)
        self.spec["process"] |= {"terminal": False, "args": command, "noNewPrivileges": False,
                                 "env": engine.image["Env"] + [f"HOSTNAME={name}"],
                                 "cwd": engine.image["WorkingDir"]}
        self.spec["process"].pop("rlimits", None)
        self.spec["linux"].pop("resources", None)
        self.spec["mounts"] = [mount for mount in self.spec["mounts"] if mount["type"] != "cgroup"]
        self.spec["root"]["readonly"] = False
        self.spec["hostname"] = name
        self.set_user(engine.image["User"])

    def set_user(self, user):
        uid, gid = (int(one) for one in user.split(":"))
        self.spec["process"]["user"] = {"uid": uid, "gid": gid}
        self.set_capabilities(CAPABILITIES)

    def set_capabilities(self, capabilities):
        is_root = self.spec["process"]["user"]["uid"] == 0
        own = capabilities if is_root else []
        self.spec["process"]["capabilities"] = {
            "bounding": capabilities, "effective": own, "permitted": own, "inheritable": [],
            "ambient": []}

    def mount(self, source, path, options=("rw",)):
        self.spec["mounts"].append({"destination": path, "type": "bind", "source": source,
                                    "options": ["rbind", "rprivate", *options]})

    def mount_volume(self, text, folder):
        """SOURCE:PATH[:ro]; SOURCE without a slash is a volume, and counts from `folder` with one."""
        source, path, *options = text.split(":")
        expect_known(f"volume {text}", options, {"ro", "rw"})
        if "/" in source:
            source = os.path.normpath(os.path.join(folder, source))
            if not os.path.exists(source):
                fail(f"volume {text}: there is no {source}")
        else:
            source = self.engine.volume(source, path)
        self.mount(source, path, options)

    def mount_tmpfs(self, path):
        self.spec["mounts"].append({"destination": path, "type": "tmpfs", "source": "tmpfs",
                                    "options": ["nosuid", "nodev", "noexec"]})

    def write(self, path, content):
        """A file of this container alone."""
        file = os.path.join(self.folder, os.path.basename(path))
        with open(file, "w", encoding="utf-8") as text:
            text.write(content)
        self.mount(file, path)

    def set_network(self, namespace):
        """The path of a namespace; empty: the one of this process."""
        others = [one for one in self.spec["linux"]["namespaces"] if one["type"] != "network"]
        network = [{"type": "network", "path": namespace}] if namespace else []
        self.spec["linux"]["namespaces"] = others + network

    def run(self, **options):
        """Returns its exit code."""
        with open(os.path.join(self.folder, "config.json"), "w", encoding="utf-8") as text:
            json.dump(self.spec, text, indent=1)
        return self.engine.runc("run", f"--bundle={self.folder}", self.name,
                                stdin=subprocess.DEVNULL, **options).returncode


def answer(query, addresses):
    """The answer of a name server that has these addresses, as RFC 1035 has it."""
    labels = []
    end = 12
    while query[end]:
        labels.append(query[end + 1:end + 1 + query[end]])
        end += 1 + query[end]
    address = addresses.get(b".".join(labels).decode().lower())
    question = query[12:end + 5]
    wants_ipv4 = question[-4:] == b"\0\1\0\1"
    records = []
    if address and wants_ipv4:
        records = [b"\xc0\x0c" + question[-4:] + (60).to_bytes(4, "big") + b"\0\4" +
                   socket.inet_aton(address)]
    flags = b"\x81\x80" if address else b"\x81\x83"
    return (query[:2] + flags + b"\0\1\0" + bytes([len(records)]) + b"\0" * 4 + question +
            b"".join(records))


class Network:
    """A bridge in a namespace of its own, and a namespace for each member. It has no way out. A
    name server at the bridge knows the members, as Docker's does."""

    def __init__(self, prefix, members):
        self.prefix = prefix
        self.addresses = {member: f"10.88.0.{i}" for i, member in enumerate(members, start=2)}
        self.hub = f"{prefix}-hub"
        self.gateway = "10.88.0.1"

    def namespace(self, member):
        return f"{self.prefix}-{member}"

    def ip(self, *arguments):
        subprocess.run(("ip",) + arguments, check=True)

    def start(self):
        self.ip("netns", "add", self.hub)
        self.ip("-n", self.hub, "link", "add", "bridge", "type", "bridge")
        self.ip("-n", self.hub, "address", "add", f"{self.gateway}/24", "dev", "bridge")
        self.ip("-n", self.hub, "link", "set", "bridge", "up")
        for i, (member, address) in enumerate(self.addresses.items()):
            own = self.namespace(member)
            self.ip("netns", "add", own)
            self.ip("-n", self.hub, "link", "add", f"port{i}", "type", "veth", "peer", "name",
                    "eth0", "netns", own)
            self.ip("-n", self.hub, "link", "set", f"port{i}", "master", "bridge", "up")
            self.ip("-n", own, "address", "add", f"{address}/24", "dev", "eth0")
            self.ip("-n", own, "link", "set", "eth0", "up")
            self.ip("-n", own, "link", "set", "lo", "up")
        threading.Thread(target=self.serve_names, daemon=True).start()

    def serve_names(self):
        # Only this thread goes into the namespace.
        with open(f"/run/netns/{self.hub}", encoding="utf-8") as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "cannot enter a network namespace")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind((self.gateway, 53))
            while True:
                query, client = server.recvfrom(512)
                server.sendto(answer(query, self.addresses), client)

    def stop(self):
        for namespace in [self.namespace(member) for member in self.addresses] + [self.hub]:
            subprocess.run(["ip", "netns", "delete", namespace], check=False,
                           stderr=subprocess.DEVNULL)


class Compose:
    """A compose file."""

    def __init__(self, engine, file):
        self.engine = engine
        self.folder = os.path.dirname(os.path.abspath(file))
        with open(file, encoding="utf-8") as text:
            document = yaml.safe_load(text)
        expect_known(file, [key for key in document if not key.startswith("x-")],
                     {"name", "services", "volumes"})
        self.name = document["name"]
        self.services = document["services"]
        self.volumes = document["volumes"]
        self.network = Network(f"compose-{os.getpid()}", self.services)
        for name, service in self.services.items():
            self.check(name, service)

    def check(self, name, service):
        expect_known(name, service, {"build", "cap_drop", "command", "depends_on", "image",
                                     "read_only", "restart", "security_opt", "volumes"})
        if not re.fullmatch(r"on-failure:\d", service.get("restart", "on-failure:0")):
            fail(f"{name}: expected restart to be on-failure:N, got {service['restart']}")
        for key, value in (("image", IMAGE), ("read_only", True), ("cap_drop", ["ALL"]),
                           ("security_opt", ["no-new-privileges:true"])):
            if service.get(key) != value:
                fail(f"{name}: expected {key} to be {value}, got {service.get(key)}")
        for volume in service["volumes"]:
            if "/" not in volume.split(":")[0] and volume.split(":")[0] not in self.volumes:
                fail(f"{name}: there is no volume for {volume}")
        for other, condition in service["depends_on"].items():
            if other not in self.services or condition != {
                    "condition": "service_completed_successfully"}:
                fail(f"{name}: expected to depend on the end of another service, got {other}")
        if "build" in service:
            expect_known(f"{name}: build", service["build"], {"context", "dockerfile"})
            dockerfile = os.path.join(self.folder, service["build"]["context"],
                                      service["build"]["dockerfile"])
            if not os.path.isfile(dockerfile):
                fail(f"{name}: there is no {dockerfile}")

    def container_name(self, service):
        return f"{self.name}-{service}-1"

    def container(self, name):
        service = self.services[name]
        container = Container(self.engine, self.container_name(name), service["command"])
        container.spec["root"]["readonly"] = True
        container.spec["process"]["noNewPrivileges"] = True
        container.set_capabilities([])
        container.set_network(f"/run/netns/{self.network.namespace(name)}")
        container.write("/etc/hosts", f"127.0.0.1 localhost\n{self.network.addresses[name]} "
                        f"{self.container_name(name)}\n")
        container.write("/etc/resolv.conf", f"nameserver {self.network.gateway}\n")
        for volume in service["volumes"]:
            container.mount_volume(volume, self.folder)
        return container

    def run_service(self, name, ended, exit_codes):
        while os.path.exists(self.engine.path("held", name)):
            time.sleep(0.1)
        for other in self.services[name]["depends_on"]:
            ended[other].wait()
            if exit_codes[other] != 0:
                print(f'service "{other}" didn\'t complete successfully: {name} does not start')
                exit_codes[name] = 1
                ended[name].set()
                return
        log = self.engine.path("logs", name)
        restarts = int(self.services[name].get("restart", "on-failure:0")[-1])
        with open(log, "w", encoding="utf-8") as output:
            for _ in range(1 + restarts):
                exit_codes[name] = self.container(name).run(stdout=output,
                                                            stderr=subprocess.STDOUT)
                if exit_codes[name] == 0:
                    break
        with open(log, encoding="utf-8") as text:
            for line in text:
                print(f"{name}  | {line}", end="")
        print(f"{self.container_name(name)} exited with code {exit_codes[name]}", flush=True)
        ended[name].set()

    def up(self):
        """Shows what each service has printed when it has ended. Returns 0 if all have ended well."""
        os.makedirs(self.engine.path("logs"), exist_ok=True)
        ended = {name: threading.Event() for name in self.services}
        exit_codes = {}
        try:
            self.network.start()
            threads = [threading.Thread(target=self.run_service, args=(name, ended, exit_codes))
                       for name in self.services]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            self.network.stop()
        return max(exit_codes.values())

    def execute(self, service, command):
        return self.engine.runc("exec", self.container_name(service), *command).returncode

    def down(self):
        for name in self.services:
            stop(self.engine, self.container_name(name))
        for volume in self.volumes:
            shutil.rmtree(self.engine.path("volumes", volume), ignore_errors=True)
        return 0


def stop(engine, name):
    """Asks the container to end, and kills it later. Returns 0 if it has not had to be killed."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    engine.runc("kill", name, "TERM", **quiet)
    ended = threading.Event()
    for _ in range(STOP_SECONDS * 10):
        if engine.runc("state", name, **quiet).returncode != 0:
            return 0
        ended.wait(0.1)
    engine.runc("kill", name, "KILL", **quiet)
    return 1


def run(engine, arguments):
    parser = argparse.ArgumentParser(prog="run", allow_abbrev=False)
    parser.add_argument("--rm", action="store_true", required=True)
    parser.add_argument("--name", default=f"run-{os.getpid()}")
    parser.add_argument("--network", choices=["none", "host"], default="none")
    parser.add_argument("--read-only", action="store_true")
    parser.add_argument("--tmpfs", action="append", default=[])
    parser.add_argument("--user", default=engine.image["User"])
    parser.add_argument("--volume", action="append", default=[])
    parser.add_argument("image", choices=[IMAGE])
    parser.add_argument("command", nargs=argparse.REMAINDER)
    flags = parser.parse_args(arguments)
    container = Container(engine, flags.name, flags.command or engine.image["Cmd"])
    container.spec["root"]["readonly"] = flags.read_only
    container.set_user(flags.user)
    for path in flags.tmpfs:
        container.mount_tmpfs(path)
    for volume in flags.volume:
        container.mount_volume(volume, os.getcwd())
    if flags.network == "host":
        container.set_network("")
        container.mount("/etc/hosts", "/etc/hosts")
        container.mount("/etc/resolv.conf", "/etc/resolv.conf")
    else:
        container.write("/etc/hosts", "127.0.0.1 localhost\n")
    return container.run()


def compose(engine, arguments):
    parser = argparse.ArgumentParser(prog="compose", allow_abbrev=False)
    parser.add_argument("--file", required=True)
    parser.add_argument("verb", choices=["up", "exec", "down"])
    parser.add_argument("rest", nargs=argparse.REMAINDER)
    flags = parser.parse_args(arguments)
    file = Compose(engine, flags.file)
    if flags.verb == "exec":
        return file.execute(flags.rest[0], flags.rest[1:])
    if flags.rest != {"up": [], "down": ["--volumes"]}[flags.verb]:
        fail(f"compose {flags.verb}: got {flags.rest}")
    return file.up() if flags.verb == "up" else file.down()


def main(arguments):
    if len(arguments) < 2 or arguments[1] not in ("run", "stop", "compose"):
        fail("expected STATE, and run, stop or compose")
    engine = Engine(arguments[0])
    # As a signal would otherwise end this program and leave networks behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if arguments[1] == "stop":
        return stop(engine, *arguments[2:])
    return {"run": run, "compose": compose}[arguments[1]](engine, arguments[2:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
