"""The commands of the README, on the emulated cluster."""

import os
import shlex
import subprocess

import yaml


class Kubectl:
    """Runs command lines in `folder`, which has deploy/kubernetes as the repository has it."""

    def __init__(self, cluster, folder):
        self.cluster, self.folder = cluster, folder

    def run(self, line):
        """Returns whether the command has ended well, and its output."""
        words = shlex.split(line)
        if words[0] == 'capstan':
            return self._run([os.path.join(self.cluster.programs, 'capstan')] + words[1:])
        verbs = {'apply': self._apply, 'create': self._create, 'delete': self._delete,
                 'exec': self._exec, 'get': self._get, 'logs': self._logs, 'wait': self._wait}
        return verbs[words[1]](words[2:])

    def _run(self, command):
        ended = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        return ended.returncode == 0, ended.stdout + ended.stderr

    def build(self, overlay):
        built = subprocess.run(['kubectl', 'kustomize', overlay], cwd=self.folder,
                               capture_output=True, text=True, check=True)
        return list(yaml.safe_load_all(built.stdout))

    def _apply(self, words):
        option, overlay = words
        assert option == '-k', words
        self.cluster.apply(self.build(overlay))
        return True, ''

    def _create(self, words):
        """The real kubectl makes the object."""
        made = subprocess.run(['kubectl', 'create', *words, '--dry-run=client', '--output=yaml'],
                              cwd=self.folder, capture_output=True, text=True, check=True)
        secret = yaml.safe_load(made.stdout)
        self.cluster.apply([{'type': 'Opaque', **secret}])
        return True, ''

    def _delete(self, words):
        if words[0] == '-k':
            return self.cluster.remove({(document['kind'], document['metadata']['name'])
                                        for document in self.build(words[1])}), ''
        # Without the option the command ends before the pods.
        kind, which, option = words
        assert kind == 'job' and option == '--cascade=foreground', words
        is_all = which == '--selector=app.kubernetes.io/name=capstan'
        return self.cluster.remove({('Job', name) for name in self.cluster.jobs
                                    if is_all or name == which}), ''

    def _pods(self, job):
        """All pods of job/NAME or statefulset/NAME, the first one first."""
        kind, name = job.split('/')
        job = self.cluster.jobs[name]
        assert job.kind.lower() == kind, job
        return job.ended_pods + list(job.pods.values())

    def _exec(self, words):
        assert words[1] == '--', words
        ended = self._pods(words[0])[-1].run(*words[2:])
        return ended.returncode == 0, ended.stdout + ended.stderr

    def _logs(self, words):
        (job,) = words
        return True, self._pods(job)[-1].log()

    def _get(self, words):
        kind, selector = words
        assert kind == 'pods' and selector.startswith('--selector='), words
        label, value = selector.removeprefix('--selector=').split('=')
        selected = [pod for pod in self.cluster.running if pod.labels.get(label) == value]
        return True, ''.join(f'{pod.name} {int(pod.is_ready)}/1\n' for pod in selected)

    def _wait(self, words):
        condition, timeout, job = words
        assert condition == '--for=condition=complete' and timeout == '--timeout=10m', words
        job = self.cluster.jobs[job.removeprefix('job/')]
        return self.cluster.wait_until(job.is_complete, seconds=600), ''
