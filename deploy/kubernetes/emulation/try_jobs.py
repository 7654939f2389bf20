"""Runs the jobs of the manifests in an emulated cluster, with losses. Called by ../test.sh, as root, in
network, mount and PID namespaces of its own. Prints a line for each case.
Arguments: REPOSITORY PROGRAMS SCRATCH, all folders; the first has deploy/kubernetes with local/keys. Then
names of the parts to try; none: all."""

import functools
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback

from cluster import Cluster, WORKLOADS
from kubectl import Kubectl

repository, programs, scratch = sys.argv[1:4]
manifests = os.path.join(repository, 'deploy', 'kubernetes')
# Seconds in which each wait must end. The machine may be busy.
PATIENCE = 300


class Trial:
    """One job, and the cases that it tries."""

    def __init__(self, name, overlay='', coordinator_flags=(), secrets=(), other_flags=(),
                 job_file=None):
        """Of the overlay; none: nothing runs so far. `secrets` are those of the overlay local.
        `other_flags` are those of servers and workers. `job_file` replaces the overlay's. The links
        are slow."""
        self.name = name
        self.cluster = Cluster(programs, os.path.join(scratch, name))
        self.kubectl = Kubectl(self.cluster, repository)
        self.failed = False
        self.began = time.monotonic()
        if not overlay:
            return
        self.slow()
        documents = self.kubectl.build(f'deploy/kubernetes/{overlay}')
        for document in documents:
            if document['kind'] in WORKLOADS:
                (container,) = document['spec']['template']['spec']['containers']
                is_coordinator = container['command'] == ['capstan_coordinator']
                container['args'] += coordinator_flags if is_coordinator else other_flags
            if document['kind'] == 'ConfigMap' and job_file is not None:
                document['data']['job.textproto'] = job_file
        documents += [document for document in self.kubectl.build('deploy/kubernetes/local')
                      if document['metadata']['name'] in secrets]
        self.cluster.apply(documents)

    def slow(self):
        """From here on the job does not end, until `fast`."""
        self.cluster.set_slow_links(True)

    def fast(self):
        self.cluster.set_slow_links(False)

    @property
    def jobs(self):
        return {name.removeprefix('capstan-'): job for name, job in self.cluster.jobs.items()}

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is not None:
            self.check('no error in the emulation', False)
            traceback.print_exception(kind, error, trace)
        self.check('all pods end when the job is removed', self.cluster.remove())
        if self.failed:
            self._explain()
        print(f'{self.name}: {time.monotonic() - self.began:.0f} s', flush=True)
        return isinstance(error, Exception)

    def _explain(self):
        print('\n'.join(self.cluster.events))
        for folder, _, files in sorted(os.walk(os.path.join(self.cluster.folder, 'pods'))):
            if 'log' in files:
                with open(os.path.join(folder, 'log'), errors='replace') as log:
                    print(f'-- {os.path.basename(folder)}', *log.read().splitlines()[-12:],
                          sep='\n')

    def check(self, text, is_true):
        print('ok     ' if is_true else 'FAILED ', f'{self.name}: {text}', flush=True)
        self.failed |= not is_true

    def wait(self, is_true):
        return self.cluster.wait_until(is_true, PATIENCE)

    def pod(self, role, index):
        """The running pod; none between two."""
        return self.jobs[role].pods.get(index)

    def is_ready(self, role, index=0):
        pod = self.pod(role, index)
        return pod is not None and pod.is_ready

    def all_ready(self):
        return all(self.is_ready(role, index) for role, job in self.jobs.items()
                   for index in range(job.size))

    def num_checkpoints(self):
        folder = os.path.join(self.cluster.folder, 'volumes', 'capstan-checkpoints')
        numbers = [int(name.split('-')[1]) for name in os.listdir(folder)
                   if name.startswith('checkpoint-')
                   and os.path.exists(os.path.join(folder, name, 'manifest'))]
        return max(numbers, default=0)

    def wait_for_step(self, step):
        """A checkpoint of this step is complete."""
        return self.wait(lambda: f'the checkpoint of step {step} is complete'
                         in self.logs('coordinator'))

    def train_until_checkpoint(self, number):
        """All train, at once until this checkpoint is complete, then slowly."""
        self.wait(self.all_ready)
        self.fast()
        self.wait(lambda: self.num_checkpoints() >= number)
        self.slow()

    def is_complete(self):
        return all(job.is_complete() for job in self.jobs.values())

    def copies_are_whole(self):
        """By `capstan status` in the coordinator's pod."""
        is_good, output = self.kubectl.run(
            'kubectl exec job/capstan-coordinator -- capstan status --keys=/etc/capstan/keys '
            '--coordinator=capstan-coordinator-0.capstan.default.svc:4000')
        return is_good and 'copies: 64 of 64 whole' in output

    def is_replaced(self, role, pod):
        """The next pod in the place of this one is ready."""
        return self.pod(role, pod.index) not in (None, pod) and self.is_ready(role, pod.index)

    def check_good_end(self):
        self.fast()
        self.check('every Job is complete', self.wait(self.is_complete))

    def summary(self):
        """What the coordinator's last pod has printed."""
        log = self.jobs['coordinator'].ended_pods[-1].log()
        return json.loads(re.search(r'^\{\n.*?^\}$', log, re.MULTILINE | re.DOTALL)[0])

    def logs(self, role):
        """The logs of all pods of a role, the first ones first."""
        pods = self.jobs[role].ended_pods + list(self.jobs[role].pods.values())
        return ''.join(pod.log() for pod in pods)


@functools.lru_cache
def hash_of_plain_run(*flags):
    """The parameters' hash of the same job on this machine, without keys and without losses. As a
    pod, it has no variables by which OpenBLAS would choose other code."""
    folder = os.path.join(scratch, 'plain', str(len(flags)))
    job = os.path.join(manifests, 'common', 'job.textproto')
    subprocess.run([os.path.join(programs, 'capstan'), 'run', f'--job={job}',
                    f'--run_dir={folder}', f'--checkpoint_dir={folder}/checkpoints', *flags],
                   check=True, stdout=subprocess.DEVNULL, env={})
    with open(os.path.join(folder, 'summary.json')) as summary:
        return json.load(summary)['parameters_xxh3']


def is_confined(pod):
    """The process has nothing that the manifest denies it."""
    pid = pod.main_process()
    with open(f'/proc/{pid}/status') as status:
        fields = dict(line.split(':\t', 1) for line in status.read().splitlines())
    with open(f'/proc/{pid}/mounts') as mounts:
        options = {line.split()[1]: line.split()[3].split(',') for line in mounts}
    return (fields['Uid'].split() == ['10001'] * 4 and fields['NoNewPrivs'] == '1'
            and int(fields['CapEff'], 16) == int(fields['CapBnd'], 16) == 0
            and 'ro' in options['/'] and fields['NSpid'].split()[-1] == '1')


def try_bsp():
    expected = hash_of_plain_run()
    with Trial('bsp', 'local') as trial:
        trial.check('every pod becomes ready', trial.wait(trial.all_ready))
        trial.check('no root, no capability, a read-only root', is_confined(trial.pod('server', 0)))
        trial.check_good_end()
        trial.check('the hash of a plain run', trial.summary()['parameters_xxh3'] == expected)
        trial.check('accuracy of at least 0.95', trial.summary()['test_accuracy'] >= 0.95)
        trial.check('one pod for each index', trial.cluster.num_pods == 5)


def try_deleted_worker():
    with Trial('deleted_worker', 'local',
               ['--consistency=ssp', '--staleness=2', '--epochs=200']) as trial:
        trial.train_until_checkpoint(1)
        pod = trial.pod('worker', 1)
        pod.end()
        trial.check('ends with 143 after its step',
                    trial.wait(lambda: pod.exit_code is not None) and pod.exit_code == 143)
        trial.check('and says so in its termination message',
                    'has left the job, as it was asked to end' in pod.termination_message())
        trial.check('its next pod trains', trial.wait(lambda: trial.is_replaced('worker', pod)))
        killed = trial.pod('worker', 0)
        killed.signal(signal.SIGKILL)
        trial.check('a killed worker counts as a failure of its Job',
                    trial.wait(lambda: trial.jobs['worker'].failures == 1))
        trial.check('its next pod trains after the lease',
                    trial.wait(lambda: trial.is_replaced('worker', killed)))
        trial.check_good_end()
        trial.check('two were lost and replaced',
                    (trial.summary()['workers_lost'], trial.summary()['workers_replaced'])
                    == (2, 2))
        trial.check('the coordinator and the servers have not started again',
                    trial.jobs['coordinator'].failures == trial.jobs['server'].failures == 0)


def try_eviction():
    expected = hash_of_plain_run('--epochs=200')
    with Trial('evicted_worker', 'local', ['--epochs=200']) as trial:
        trial.train_until_checkpoint(1)
        evicted = trial.pod('worker', 1)
        evicted.end(is_evicted=True)
        trial.check('leaves between two steps',
                    trial.wait(lambda: evicted.exit_code is not None)
                    and 'has left the job, as it was asked to end' in evicted.log())
        trial.check('its next pod does its next step',
                    trial.wait(lambda: 'nothing was done twice' in trial.logs('coordinator')))
        killed = trial.pod('worker', 0)
        killed.signal(signal.SIGKILL)
        trial.check('that of a killed worker does its open step again', trial.wait(
            lambda: trial.logs('coordinator').count('nothing was done twice') == 2))
        trial.check_good_end()
        trial.check('nobody has waited for a lease', '(lease)' not in trial.logs('coordinator'))
        trial.check('the hash of an undisturbed run',
                    trial.summary()['parameters_xxh3'] == expected)


def try_lost_server():
    expected = hash_of_plain_run('--epochs=200')
    with Trial('lost_server', 'local', ['--epochs=200']) as trial:
        trial.train_until_checkpoint(2)
        trial.check('all shards have two copies', trial.wait(trial.copies_are_whole))
        evicted = trial.pod('server', 1)
        evicted.end(is_evicted=True)
        trial.check('an evicted server leaves',
                    trial.wait(lambda: evicted.exit_code == 143)
                    and 'and has left: other servers have its shards'
                    in evicted.termination_message())
        trial.check('its next pod takes its place',
                    trial.wait(lambda: trial.is_replaced('server', evicted))
                    and trial.wait(trial.copies_are_whole))
        killed = trial.pod('server', 0)
        killed.signal(signal.SIGKILL)
        trial.check('so does that of a killed one',
                    trial.wait(lambda: trial.is_replaced('server', killed))
                    and trial.wait(trial.copies_are_whole))
        trial.check_good_end()
        trial.check('two were lost and replaced',
                    (trial.summary()['servers_lost'], trial.summary()['servers_replaced'])
                    == (2, 2))
        trial.check('nobody else has started again',
                    trial.jobs['coordinator'].failures == trial.jobs['worker'].failures == 0)
        trial.check('the hash of an undisturbed run',
                    trial.summary()['parameters_xxh3'] == expected)


def try_restart():
    expected = hash_of_plain_run('--epochs=200')
    with Trial('restart', 'local', ['--epochs=200', '--replicas=1']) as trial:
        trial.train_until_checkpoint(5)
        server = trial.pod('server', 1)
        server.end()
        trial.check('a server without a copy ends with 143',
                    trial.wait(lambda: server.exit_code == 143))
        trial.check('the coordinator fails with the reason in its termination message',
                    trial.wait(lambda: trial.jobs['coordinator'].failures == 1)
                    and 'its shards are lost'
                    in trial.jobs['coordinator'].ended_pods[0].termination_message())
        trial.check('everything starts again from the newest checkpoint',
                    trial.wait(lambda: 'goes on from step' in trial.logs('coordinator'))
                    and trial.wait(trial.all_ready))
        trial.train_until_checkpoint(trial.num_checkpoints() + 5)
        lost = len(trial.jobs['server'].ended_pods + trial.jobs['worker'].ended_pods)
        trial.pod('coordinator', 0).signal(signal.SIGKILL)
        trial.check('the next pod of a killed coordinator goes on with the job', trial.wait(
            lambda: 'has taken over in phase TRAINING' in trial.logs('coordinator')))
        trial.train_until_checkpoint(trial.num_checkpoints() + 1)
        trial.check_good_end()
        trial.check('and so do the others, without a third start',
                    trial.logs('coordinator').count('goes on from step') == 1
                    and trial.jobs['coordinator'].failures == 2
                    and len(trial.jobs['server'].ended_pods + trial.jobs['worker'].ended_pods)
                    == lost + 4)
        trial.check('the hash of an undisturbed run',
                    trial.summary()['parameters_xxh3'] == expected)


def try_program():
    with Trial('program', 'program', secrets=['capstan-tls', 'capstan-token']) as trial:
        trial.check_good_end()
        trial.check('each worker has the rank of its index', all(
            f'joined as worker {pod.index}' in pod.log()
            for pod in trial.jobs['worker'].ended_pods))
        trial.check('the summary has what the program knows',
                    trial.summary()['test_loss'] < 0.001
                    and 'test_accuracy' not in trial.summary())


def try_insecure():
    with Trial('insecure', 'insecure', secrets=['capstan-token']) as trial:
        trial.check('every pod becomes ready', trial.wait(trial.all_ready))
        pod = trial.pod('worker', 1)
        pod.signal(signal.SIGINT)
        trial.check('a worker that is interrupted leaves',
                    trial.wait(lambda: pod.exit_code == 143)
                    and 'has left the job, as it was asked to end' in pod.log())
        trial.check('its next pod trains', trial.wait(lambda: trial.is_replaced('worker', pod)))
        trial.check_good_end()
        trial.check('accuracy of at least 0.95', trial.summary()['test_accuracy'] >= 0.95)


def try_no_checkpoints():
    with Trial('no_checkpoints', 'no_checkpoints', secrets=['capstan-tls', 'capstan-token'],
               other_flags=['--rpc_deadline_seconds=1']) as trial:
        trial.jobs['coordinator'].hold(seconds=3)
        trial.check('a node that is late fails no Job', trial.wait(trial.all_ready)
                    and not any(job.ended_pods for job in trial.jobs.values()))
        worker = trial.pod('worker', 0)
        worker.end()
        trial.check('a deleted worker comes again', trial.wait(
            lambda: trial.is_replaced('worker', worker) and trial.all_ready()))
        for index in range(2):
            trial.pod('server', index).signal(signal.SIGKILL)
        trial.check('the loss of both copies fails the Jobs of the coordinator and the workers',
                    trial.wait(lambda: all(trial.jobs[role].reason
                                           for role in ('coordinator', 'worker'))))
        for role in ('coordinator', 'worker'):
            trial.check(f'the reason is in the termination message of the {role}',
                        'no whole copy is left'
                        in trial.jobs[role].ended_pods[-1].termination_message())


def readme_commands():
    """The lines in blocks, without those that are marked."""
    with open(os.path.join(manifests, 'README.md')) as readme:
        blocks = re.findall(r'^```\n(.*?)^```$', readme.read(), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line for line in lines if not line.endswith('# not tried') and 'test.sh' not in line]


def try_readme():
    """Every command of the README, in its order. The job ends while a command waits for its end."""
    with Trial('readme') as trial:
        for line in readme_commands():
            trial.cluster.set_slow_links(' wait ' not in line)
            if trial.jobs and ' wait ' not in line:
                trial.wait(lambda: trial.all_ready() or trial.is_complete())
            is_running = bool(trial.cluster.running)
            is_good, output = trial.kubectl.run(line)
            trial.check(line if len(line) < 80 else f'{line[:38]} ... {line[-38:]}', is_good)
            if not is_good:
                print(output)
            if line.endswith('apply -k deploy/kubernetes/local') and is_running:
                trial.check('running pods take the new keys', trial.wait(lambda: all(
                    'new keys in /etc/capstan/keys are in use' in trial.logs(role)
                    for role in trial.jobs)))


def check_refused(trial, role, expected):
    job = trial.jobs[role]
    trial.check(f'fails the Job of the {role} at once, and is not tried again',
                trial.wait(lambda: job.reason.startswith('PodFailurePolicy'))
                and job.failures == 0)
    trial.check(f'the termination message of the {role} says what was expected',
                expected in job.ended_pods[0].termination_message())


def try_wrong_flag():
    with Trial('wrong_flag', 'local', ['--epochs=many'],
               other_flags=['--rpc_deadline_seconds=long']) as trial:
        check_refused(trial, 'coordinator', '--epochs: expected')
        for role in ('server', 'worker'):
            check_refused(trial, role, '--rpc_deadline_seconds: expected')


def try_wrong_job_file():
    with Trial('wrong_job_file', 'local', job_file='optimizer { learnin_rate: 0.1 }') as trial:
        check_refused(trial, 'coordinator', 'job.textproto:1:')


def try_service():
    with Trial('service', 'service', secrets=['capstan-tls', 'capstan-token']) as trial:
        workers = trial.kubectl.build('deploy/kubernetes/jobs/workers')
        trial.fast()
        trial.cluster.apply(workers)
        worker = trial.jobs['worker']
        trial.check('the workers of the first Job do a round',
                    trial.wait(worker.is_complete) and worker.failures == 0)
        trial.check('and leave', trial.wait(
            lambda: trial.logs('coordinator').count('has left; the') == 2))
        round_steps = 460  # steps of 20 epochs
        trial.check('their parameters are in a checkpoint', trial.wait_for_step(round_steps))
        trial.cluster.remove({('Job', 'capstan-worker')})
        trial.slow()
        trial.cluster.apply(workers)
        trial.check('the pods of the next Job become ready', trial.wait(
            lambda: trial.is_ready('worker', 0) and trial.is_ready('worker', 1)))
        evicted = trial.pod('worker', 1)
        evicted.end(is_evicted=True)
        trial.wait(lambda: trial.is_replaced('worker', evicted))
        trial.fast()
        worker = trial.jobs['worker']
        trial.check('they train on, also if one is evicted',
                    trial.wait(worker.is_complete) and trial.wait_for_step(2 * round_steps))
        trial.check('the evicted one ends with 143', evicted.exit_code == 143)
        trial.check('the coordinator and the servers have not started again',
                    not trial.jobs['coordinator'].ended_pods + trial.jobs['server'].ended_pods)
        trial.pod('coordinator', 0).signal(signal.SIGKILL)
        trial.check('another coordinator takes the place of a lost one', trial.wait(
            lambda: 'has taken over in phase' in trial.logs('coordinator')))
        trial.cluster.remove({('Job', 'capstan-worker')})
        trial.cluster.apply(workers)
        worker = trial.jobs['worker']
        trial.check('a Job then goes on with the same servers',
                    trial.wait(worker.is_complete) and trial.wait_for_step(3 * round_steps)
                    and not trial.jobs['server'].ended_pods)
        trial.check('under the names of their StatefulSets',
                    trial.pod('server', 1).hostname == 'capstan-server-1'
                    and 'capstan-server-1.capstan.default.svc:4001' in trial.logs('coordinator'))


subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
subprocess.run(['ip', 'link', 'add', 'pods', 'type', 'bridge'], check=True)
subprocess.run(['ip', 'address', 'add', '10.244.0.1/16', 'dev', 'pods'], check=True)
subprocess.run(['ip', 'link', 'set', 'pods', 'up'], check=True)
PARTS = (try_bsp, try_program, try_insecure, try_deleted_worker, try_eviction,
         try_lost_server, try_restart, try_no_checkpoints, try_wrong_flag, try_wrong_job_file, try_service, try_readme)
for part in PARTS:
    if not sys.argv[4:] or part.__name__ in sys.argv[4:]:
        part()
print('all jobs tried')
