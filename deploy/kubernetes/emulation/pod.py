"""One pod: a container in a network, IPC, PID and mount namespace of its own."""

import base64
import http.client
import os
import re
import shlex
import shutil
import signal
import subprocess
import time

PATH = '/opt/capstan/bin'
# A step of the digits takes 0.7 s then.
SLOW_LINK = ['rate', '4mbit', 'burst', '32kb', 'latency', '100ms']
COMPLETION_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"

# What a container of the image sees of this machine: its libraries.
CONTAINER = r'''
set -eu
read -r _  # the network is there
ip link set lo up
ip link set eth0 up
ip address add {address}/16 dev eth0
hostname {hostname}
mount -t tmpfs tmpfs {root}
cd {root}
mkdir -p usr etc/alternatives dev/shm proc .{path}
ln -s usr/lib usr/lib64 .
bind() {{ mount --bind "$1" "$2" && mount -o "remount,bind,nosuid,$3" "$2"; }}
bind /usr usr ro
bind /etc/alternatives etc/alternatives ro
cp /etc/ld.so.cache etc
echo 'hosts: files' >etc/nsswitch.conf
touch etc/hosts dev/null dev/urandom dev/termination-log
bind {folder}/hosts etc/hosts ro
bind {programs} .{path} ro
{mounts}
mount -t proc -o nosuid,nodev,noexec proc proc
mount -t tmpfs -o nosuid,nodev,noexec,mode=1777 tmpfs dev/shm
mount --bind /dev/null dev/null
mount --bind /dev/urandom dev/urandom
bind {folder}/termination-log dev/termination-log rw
mount -o remount,ro {root}
exec chroot {root} /usr/bin/setpriv --reuid={user} --regid={group} --groups={fs_group} \
  --inh-caps=-all --bounding-set=-all --no-new-privs /usr/bin/env --ignore-environment \
  PATH={path} {environment} {command}
'''


def expand(text, environment):
    """$(VAR) as the kubelet does it. A variable that does not exist is an error."""
    return re.sub(r'\$\$|\$\((\w+)\)',
                  lambda found: environment[found[1]] if found[1] else '$', text)


class Pod:
    """Runs from its making on, until exit_code is set. `poll` does all its work."""

    def __init__(self, name, index, job, address, cluster):
        self.name, self.index, self.address = name, index, address
        self.hostname, self.subdomain = f'{job.name}-{index}', job.subdomain
        template = job.spec['template']
        self.labels = template['metadata']['labels']
        self.spec = template['spec']
        (self.container,) = self.spec['containers']
        self.cluster = cluster
        self.folder = os.path.join(cluster.folder, 'pods', name)
        self.exit_code = None
        self.is_ready = self.has_started = self.is_evicted = self.is_ending = False
        self.kill_at = None
        self._has_slow_link = False
        self._failures = {'startupProbe': 0, 'livenessProbe': 0, 'readinessProbe': 0}
        self._next_probe = {probe: time.monotonic() for probe in self._failures}
        self._environment = self._make_environment(*job.pod_fields(name, index))
        self._start()

    def _make_environment(self, name, variables):
        fields = {'metadata.namespace': self.cluster.namespace, 'metadata.name': name,
                  COMPLETION_INDEX: str(self.index)}
        environment = {'HOSTNAME': self.hostname, **variables}
        for variable in self.container.get('env', []):
            environment[variable['name']] = (
                expand(variable['value'], environment) if 'value' in variable
                else fields[variable['valueFrom']['fieldRef']['fieldPath']])
        return environment

    def _start(self):
        os.makedirs(self.folder)
        self.cluster.write_hosts(self)
        security = self.spec['securityContext']
        termination_log = os.path.join(self.folder, 'termination-log')
        open(termination_log, 'w').close()
        os.chown(termination_log, security['runAsUser'], security['runAsGroup'])
        command = [expand(word, self._environment)
                   for word in self.container['command'] + self.container.get('args', [])]
        script = CONTAINER.format(
            address=self.address, hostname=self.hostname, folder=self.folder, path=PATH,
            root=self._make_folder('root'), programs=self.cluster.programs,
            mounts='\n'.join(self._mount(mount) for mount in self.container['volumeMounts']),
            user=security['runAsUser'], group=security['runAsGroup'],
            fs_group=security['fsGroup'], command=shlex.join(command),
            environment=shlex.join(f'{name}={value}'
                                   for name, value in self._environment.items()))
        with open(self.log_path(), 'w') as log:
            self._process = subprocess.Popen(
                ['unshare', '--net', '--ipc', '--uts', '--mount', '--pid', '--fork',
                 '--kill-child', 'bash', '-c', script],
                stdin=subprocess.PIPE, stdout=log, stderr=log)
        self._connect()

    def _connect(self):
        """Joins the pod's network to the cluster's."""
        here = os.readlink('/proc/self/ns/net')
        while os.readlink(f'/proc/{self._process.pid}/ns/net') == here:
            time.sleep(0.01)
        self._link = f'veth{self._process.pid}'
        subprocess.run(['ip', 'link', 'add', self._link, 'type', 'veth', 'peer', 'name', 'eth0',
                        'netns', str(self._process.pid)], check=True)
        subprocess.run(['ip', 'link', 'set', self._link, 'master', 'pods', 'up'], check=True)
        self.shape_link()
        self._process.stdin.write(b'\n')
        self._process.stdin.close()

    def shape_link(self):
        """Makes the link to a worker as slow as the cluster says."""
        is_slow = (self.cluster.has_slow_links
                   and self.labels['app.kubernetes.io/component'] == 'worker')
        if is_slow != self._has_slow_link and self._process.poll() is None:
            self._has_slow_link = is_slow
            change = ['replace', 'dev', self._link, 'root', 'tbf', *SLOW_LINK]
            subprocess.run(['tc', 'qdisc', *(change if is_slow else
                                             ['delete', 'dev', self._link, 'root'])], check=False)

    def _make_folder(self, *path):
        folder = os.path.join(self.folder, *path)
        os.makedirs(folder)
        return folder

    def _mount(self, mount):
        """The commands of a volume mount."""
        (volume,) = [volume for volume in self.spec['volumes'] if volume['name'] == mount['name']]
        point = mount['mountPath'].lstrip('/')
        is_read_only = mount.get('readOnly', False)
        if 'persistentVolumeClaim' in volume:
            source = self.cluster.volume(volume['persistentVolumeClaim']['claimName'],
                                         self.spec['securityContext']['fsGroup'])
        else:
            source = self._make_folder('volumes', volume['name'])
            self._write_volume(volume)
            is_read_only = True
        return (f'mkdir -p {point}; bind {source} {point} '
                + ('ro' if is_read_only else 'rw'))

    def _write_volume(self, volume):
        """As the kubelet's: new contents are there at once, by one rename."""
        folder = os.path.join(self.folder, 'volumes', volume['name'])
        if 'configMap' in volume:
            data = self.cluster.find('ConfigMap', volume['configMap']['name'])['data']
            files, mode = {name: text.encode() for name, text in data.items()}, 0o644
        else:
            files, mode = {}, volume['projected']['defaultMode']
            for source in volume['projected']['sources']:
                secret = self.cluster.find('Secret', source['secret']['name'])
                files.update((name, base64.b64decode(text))
                             for name, text in secret['data'].items())
        version = f'..{time.time_ns()}'
        os.makedirs(os.path.join(folder, version))
        for name, contents in files.items():
            path = os.path.join(folder, version, name)
            with open(path, 'wb') as file:
                file.write(contents)
            os.chmod(path, mode)
            os.chown(path, 0, self.spec['securityContext']['fsGroup'])
            if not os.path.lexists(os.path.join(folder, name)):
                os.symlink(f'..data/{name}', os.path.join(folder, name))
        os.symlink(version, os.path.join(folder, '..new'))
        os.rename(os.path.join(folder, '..new'), os.path.join(folder, '..data'))

    def update_volumes(self):
        """Brings changed Secrets and ConfigMaps into the running pod."""
        for volume in self.spec['volumes']:
            if 'persistentVolumeClaim' not in volume:
                self._write_volume(volume)

    def log_path(self):
        return os.path.join(self.folder, 'log')

    def log(self):
        with open(self.log_path(), errors='replace') as file:
            return file.read()

    def termination_message(self):
        """FallbackToLogsOnError: the end of the log, if the pod has left no message."""
        with open(os.path.join(self.folder, 'termination-log')) as file:
            message = file.read()
        return message if message or self.exit_code == 0 else self.log()[-2048:]

    def main_process(self):
        """The first process of the container; none while it is made."""
        path = f'/proc/{self._process.pid}/task/{self._process.pid}/children'
        try:
            with open(path) as children:
                pids = children.read().split()
            with open(f'/proc/{pids[0]}/comm') as comm:
                is_made = comm.read().startswith('capstan')
        except (OSError, IndexError):
            return None
        return int(pids[0]) if is_made else None

    def signal(self, number):
        pid = self.main_process()
        if pid is not None:
            os.kill(pid, number)

    def end(self, grace=None, is_evicted=False):
        """As a deleted or an evicted pod: SIGTERM, and SIGKILL after the grace period."""
        if grace is None:
            grace = self.spec['terminationGracePeriodSeconds']
        if self.is_ending:
            return
        self.is_ending, self.is_evicted = True, is_evicted
        self.kill_at = time.monotonic() + grace
        self.signal(signal.SIGTERM)

    def run(self, *command):
        """As kubectl exec: returns what the command prints."""
        pid = str(self.main_process())
        security = self.spec['securityContext']
        return subprocess.run(
            ['nsenter', '--target', pid, '--net', '--ipc', '--uts', '--pid', '--mount', '--root',
             '--wd=/', '/usr/bin/setpriv', f'--reuid={security["runAsUser"]}',
             f'--regid={security["runAsGroup"]}', f'--groups={security["fsGroup"]}',
             '/usr/bin/env', '--ignore-environment', f'PATH={PATH}', *command],
            capture_output=True, text=True, timeout=30)

    def poll(self):
        code = self._process.poll()
        if code is not None:
            self.exit_code = 128 - code if code < 0 else code
            self.is_ready = False
            shutil.rmtree(os.path.join(self.folder, 'root'), ignore_errors=True)
            return
        if self.kill_at is not None and time.monotonic() >= self.kill_at:
            self.signal(signal.SIGKILL)
        for probe in ['livenessProbe', 'readinessProbe'] if self.has_started else ['startupProbe']:
            if time.monotonic() >= self._next_probe[probe]:
                self._probe(probe)

    def _probe(self, name):
        probe = self.container[name]
        self._next_probe[name] = time.monotonic() + probe.get('periodSeconds', 10)
        is_good = self._answers(probe)
        if name == 'startupProbe':
            self.has_started = is_good
        if name == 'readinessProbe':
            self.is_ready = is_good
        self._failures[name] = 0 if is_good else self._failures[name] + 1
        if name != 'readinessProbe' and self._failures[name] >= probe['failureThreshold']:
            self.end()

    def _answers(self, probe):
        port = probe['httpGet']['port']
        if isinstance(port, str):
            (port,) = [named['containerPort'] for named in self.container['ports']
                       if named['name'] == port]
        connection = http.client.HTTPConnection(self.address, port,
                                                timeout=probe.get('timeoutSeconds', 1))
        try:
            connection.request('GET', probe['httpGet']['path'])
            return 200 <= connection.getresponse().status < 400
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
