"""What the manifests rely on of a cluster: Jobs, StatefulSets, pods, names, volumes. One machine, no API
server."""

import itertools
import os
import shutil
import time

import pod as pods
from fields import check_known

# The first delay before a failed pod's next one. Kubernetes has 10 s, and doubles it, too.
FIRST_DELAY = 0.5
LONGEST_DELAY = 4


class Workload:
    """Starts the pods of its indices, and again after each end, as its kind says in `_on_end`."""

    def __init__(self, document, cluster, size, subdomain):
        self.kind, self.name = document['kind'], document['metadata']['name']
        self.spec = document['spec']
        self.cluster, self.size, self.subdomain = cluster, size, subdomain
        self.pods = {}  # the latest of each index
        self.ended_pods = []
        self.failures = 0
        self.reason = ''  # why it starts no pods any more
        self._start_at = dict.fromkeys(range(size), 0)

    def poll(self):
        for index, pod in list(self.pods.items()):
            pod.poll()
            if pod.exit_code is not None:
                del self.pods[index]
                self.ended_pods.append(pod)
                self.cluster.note(f'{pod.name} ended with {pod.exit_code}')
                self._on_end(index, pod)
        for index, start_at in list(self._start_at.items()):
            if not self.reason and time.monotonic() >= start_at:
                del self._start_at[index]
                self.pods[index] = self.cluster.start_pod(self, index)

    def hold(self, seconds):
        """The nodes of all pods take this long to start."""
        self._start_at = dict.fromkeys(self._start_at, time.monotonic() + seconds)

    def _start_again(self, index, is_failure):
        delay = 0
        if is_failure:
            self.failures += 1
            delay = min(FIRST_DELAY * 2 ** (self.failures - 1), LONGEST_DELAY)
        self._start_at[index] = time.monotonic() + delay


class Job(Workload):
    """An Indexed Job: ends when each index has ended well, or when it fails."""

    def __init__(self, document, cluster):
        spec = document['spec']
        super().__init__(document, cluster, spec['completions'],
                         spec['template']['spec'].get('subdomain'))
        self.succeeded = set()

    def is_complete(self):
        return len(self.succeeded) == self.size

    def pod_fields(self, name, index):
        """The pod's metadata.name, and its variables."""
        return name, {'JOB_COMPLETION_INDEX': str(index)}

    def _on_end(self, index, pod):
        if pod.exit_code == 0:
            self.succeeded.add(index)
            return
        action = self._action(pod)
        if action == 'FailJob':
            self._fail(f'PodFailurePolicy: {pod.name} ended with {pod.exit_code}')
        elif action == 'Count' and self.failures == self.spec['backoffLimit']:
            self._fail('BackoffLimitExceeded')
        else:
            self._start_again(index, is_failure=action == 'Count')

    def _action(self, pod):
        """The first rule that fits the pod decides."""
        for rule in self.spec.get('podFailurePolicy', {}).get('rules', []):
            codes = rule.get('onExitCodes', {}).get('values', [])
            if pod.exit_code in codes or (rule.get('onPodConditions') and pod.is_evicted):
                return rule['action']
        return 'Count'

    def _fail(self, reason):
        self.cluster.note(f'job {self.name} has failed: {reason}')
        self.reason = reason
        for pod in self.pods.values():
            pod.end()


class StatefulSet(Workload):
    """Its pods always come again. A container that ends starts again in a new pod of the same name."""

    def __init__(self, document, cluster):
        super().__init__(document, cluster, document['spec']['replicas'],
                         document['spec']['serviceName'])

    def is_complete(self):
        return True  # nobody waits for its end

    def pod_fields(self, name, index):
        return f'{self.name}-{index}', {}

    def _on_end(self, index, pod):
        self._start_again(index, is_failure=not pod.is_ending)


WORKLOADS = {'Job': Job, 'StatefulSet': StatefulSet}


class Cluster:
    """Runs the Jobs that are applied. `poll` does all the work."""

    # Of the pods' addresses. Never used again, because the kernel takes some time to forget them.
    numbers = itertools.count(1)

    def __init__(self, programs, folder, namespace='default'):
        self.programs, self.folder, self.namespace = programs, folder, namespace
        self.documents = []
        self.events = []
        self.num_pods = 0
        self.jobs = {}  # and StatefulSets
        self.running = []  # pods that have names
        self.has_slow_links = False
        self._latest_names = []

    def apply(self, documents):
        """As kubectl apply: makes new objects, and changes those that may change."""
        for document in documents:
            check_known(document)
            kind, name = document['kind'], document['metadata']['name']
            known = [one for one in self.documents
                     if (one['kind'], one['metadata']['name']) == (kind, name)]
            if known and kind in WORKLOADS and known[0]['spec'] != document['spec']:
                raise ValueError(f'{kind} {name}: the emulation cannot change it')
            self.documents = [one for one in self.documents if one not in known] + [document]
            if kind in WORKLOADS and not known:
                self.jobs[name] = WORKLOADS[kind](document, self)
        for pod in self.running:
            pod.update_volumes()

    def set_slow_links(self, are_slow):
        """The links of workers, also of those to come. A job on slow links trains on, however fast the
        machine is, until they are fast again."""
        self.has_slow_links = are_slow
        for pod in self.running:
            pod.shape_link()

    def note(self, event):
        self.events.append(f'{time.strftime("%H:%M:%S")} {event}')

    def find(self, kind, name):
        for document in self.documents:
            if document['kind'] == kind and document['metadata']['name'] == name:
                return document
        raise KeyError(f'there is no {kind} {name}')

    def volume(self, claim, group):
        """The folder of a claim, writable for the group, as fsGroup makes it."""
        self.find('PersistentVolumeClaim', claim)
        folder = os.path.join(self.folder, 'volumes', claim)
        os.makedirs(folder, exist_ok=True)
        os.chown(folder, -1, group)
        os.chmod(folder, 0o2775)
        return folder

    def start_pod(self, job, index):
        """Each pod has a new name and a new address."""
        self.num_pods += 1
        name = f'{job.name}-{index}-{self.num_pods}'
        number = next(self.numbers)
        address = f'10.244.{number // 250}.{number % 250 + 1}'
        self.note(f'starts {name}')
        pod = pods.Pod(name, index, job, address, self)
        self.running.append(pod)
        return pod

    def _names(self):
        """Lines of a hosts file: what the headless Services say of running pods."""
        for service in self.documents:
            if service['kind'] != 'Service':
                continue
            name, spec = service['metadata']['name'], service['spec']
            for pod in self.running:
                is_selected = spec['selector'].items() <= pod.labels.items()
                is_published = pod.is_ready or spec.get('publishNotReadyAddresses', False)
                if is_selected and is_published and pod.subdomain == name:
                    full = f'{pod.hostname}.{name}.{self.namespace}.svc'
                    yield f'{pod.address} {full}.cluster.local {full} {pod.hostname}.{name}\n'

    def write_hosts(self, pod):
        # The same file: the pod has it mounted.
        with open(os.path.join(pod.folder, 'hosts'), 'w') as hosts:
            hosts.write(f'127.0.0.1 localhost\n{pod.address} {pod.hostname}\n')
            hosts.writelines(self._names())

    def poll(self):
        for job in self.jobs.values():
            job.poll()
        self.running = [pod for job in self.jobs.values() for pod in job.pods.values()]
        names = list(self._names())
        if names != self._latest_names:
            self._latest_names = names
            for pod in self.running:
                self.write_hosts(pod)

    def wait_until(self, is_true, seconds):
        """False: it was not true in time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.poll()
            if is_true():
                return True
            time.sleep(0.05)
        return False

    def remove(self, objects=None):
        """As kubectl delete, of these pairs of kind and name, or of everything. False: a pod does not
        end."""
        def is_removed(kind, name):
            return objects is None or (kind, name) in objects
        removed = [job for job in self.jobs.values() if is_removed(job.kind, job.name)]
        for job in removed:
            job.reason = job.reason or 'deleted'
            for pod in job.pods.values():
                pod.end(grace=3)
        has_ended = self.wait_until(lambda: not any(job.pods for job in removed), seconds=120)
        for job in removed:
            del self.jobs[job.name]
        for document in list(self.documents):
            kind, name = document['kind'], document['metadata']['name']
            if is_removed(kind, name):
                self.documents.remove(document)
                if kind == 'PersistentVolumeClaim':
                    shutil.rmtree(os.path.join(self.folder, 'volumes', name), ignore_errors=True)
        return has_ended
