"""Changes good manifests, one fault at a time, and expects check_manifests.py to find each, and the
emulation to refuse what it does not know. Arguments: PROGRAMS MANIFEST, the latter as kubectl kustomize
prints it for the overlay local."""

import copy
import sys

import yaml

from check_manifests import Checker
from fields import UnknownField, check_known

programs, path = sys.argv[1:]
with open(path) as manifest:
    good = list(yaml.safe_load_all(manifest))


class Manifests:
    """A copy of the good ones."""

    def __init__(self):
        self.documents = copy.deepcopy(good)

    def find(self, kind, name='capstan'):
        (found,) = [document for document in self.documents
                    if document['kind'] == kind and document['metadata']['name'] == name]
        return found

    def pod(self, role):
        return self.find('Job', f'capstan-{role}')['spec']['template']['spec']

    def container(self, role):
        return self.pod(role)['containers'][0]

    def replace_arg(self, role, old, new):
        args = self.container(role)['args']
        args[:] = [arg.replace(old, new) for arg in args]


def rename_flag(manifests):
    manifests.replace_arg('worker', '--keys', '--key')


def other_coordinator(manifests):
    manifests.replace_arg('server', 'coordinator-0.', 'coordinator-1.')


def other_advertised_host(manifests):
    manifests.replace_arg('server', 'server-$', 'servers-$')


def other_health_port(manifests):
    manifests.replace_arg('worker', '0.0.0.0:8080', '0.0.0.0:8081')


def ready_probe_of_life(manifests):
    manifests.container('server')['readinessProbe']['httpGet']['path'] = '/healthz'


def no_volume(manifests):
    del manifests.pod('server')['volumes'][0]


def other_secret(manifests):
    manifests.pod('worker')['volumes'][0]['projected']['sources'][1]['secret']['name'] = 'token'


def no_key(manifests):
    del manifests.find('Secret', 'capstan-tls')['data']['ca.crt']


def other_label(manifests):
    manifests.find('Service')['spec']['selector']['app.kubernetes.io/name'] = 'other'


def names_of_ready_pods(manifests):
    manifests.find('Service')['spec']['publishNotReadyAddresses'] = False


def other_service_port(manifests):
    manifests.find('Service')['spec']['ports'][0]['port'] = 4002


def too_many_available(manifests):
    manifests.find('PodDisruptionBudget', 'capstan-server')['spec']['minAvailable'] = 3


def too_few_available(manifests):
    manifests.find('PodDisruptionBudget', 'capstan-server')['spec']['minAvailable'] = 0


def evictions_without_copies(manifests):
    config = manifests.find('ConfigMap', 'capstan-job')
    config['data']['job.textproto'] = config['data']['job.textproto'].replace('replicas: 2', '')


def coordinator_without_state(manifests):
    args = manifests.container('coordinator')['args']
    args[:] = [arg for arg in args if not arg.startswith('--state')]


def state_of_one_pod(manifests):
    manifests.replace_arg('coordinator', '=/checkpoints/', '=/tmp/')


def servers_on_one_node(manifests):
    del manifests.pod('server')['topologySpreadConstraints']


def short_wait(manifests):
    manifests.replace_arg('server', '--connect_seconds=1800', '--connect_seconds=120')


def job_that_stays(manifests):
    manifests.container('coordinator')['args'].append('--stay')


def few_starts(manifests):
    manifests.find('Job', 'capstan-worker')['spec']['backoffLimit'] = 39


def closed_port(manifests):
    del manifests.find('NetworkPolicy')['spec']['ingress'][0]['ports'][1]


def one_server_more(manifests):
    manifests.find('Job', 'capstan-server')['spec']['completions'] = 3


def no_return(manifests):
    manifests.find('Job', 'capstan-worker')['spec']['backoffLimit'] = 0


def server_without_return(manifests):
    manifests.find('Job', 'capstan-server')['spec']['backoffLimit'] = 0


def evicted_for_good(manifests):
    policy = manifests.find('Job', 'capstan-worker')['spec']['podFailurePolicy']
    policy['rules'][0]['onExitCodes']['values'] = [2, 143]


def other_checkpoints(manifests):
    config = manifests.find('ConfigMap', 'capstan-job')
    config['data']['job.textproto'] = config['data']['job.textproto'].replace('/checkpoints', '/c')


def begins_anew(manifests):
    config = manifests.find('ConfigMap', 'capstan-job')
    config['data']['job.textproto'] = config['data']['job.textproto'].replace(
        'restore: "latest"', '')


FAULTS = {
    rename_flag: 'capstan_worker has no flag --key',
    other_coordinator: 'server: --coordinator is not capstan-coordinator-0.capstan.',
    other_advertised_host: '--advertise_host is none of',
    other_health_port: "worker: serves {'health': 8081",
    ready_probe_of_life: 'server: readinessProbe asks',
    no_volume: 'server: volumes',
    other_secret: 'worker: unknown Secret token',
    no_key: 'Secret capstan-tls has',
    other_label: 'worker: the Service does not select its pods',
    names_of_ready_pods: 'pods that are not ready',
    other_service_port: 'Service port coordinator: no pod has it',
    too_many_available: 'capstan-server wants 3 pods, not 1',
    too_few_available: 'capstan-server wants 0 pods, not 1',
    evictions_without_copies: 'capstan-server wants 1 pods, not 2',
    coordinator_without_state: 'the next pod of a lost coordinator does not go on with the job',
    state_of_one_pod: '/tmp/coordinator of --state is in no volume',
    servers_on_one_node: 'the servers are not spread over the nodes',
    short_wait: 'server: --connect_seconds is not 1800, as registration_seconds',
    job_that_stays: 'only the coordinator of a StatefulSet has --stay',
    few_starts: 'worker: 10 starts need a backoffLimit of 40',
    closed_port: 'the NetworkPolicy admits',
    one_server_more: 'the job has 2 servers, but 3 pods',
    no_return: 'a killed worker does not come again',
    server_without_return: 'a killed server does not come again',
    evicted_for_good: 'an evicted worker does not come again',
    other_checkpoints: 'cannot write checkpoints into /c',
    begins_anew: 'does not go on from its newest checkpoint',
}

found = Checker(Manifests().documents, programs).check()
is_good = not found
print(*found, sep='\n')
for fault, expected in FAULTS.items():
    manifests = Manifests()
    fault(manifests)
    found = Checker(manifests.documents, programs).check()
    if not any(expected in text for text in found):
        is_good = False
        print(f'{fault.__name__}: expected "{expected}", found {found}')
print(f'{len(FAULTS)} faults tried')


def host_network(manifests):
    manifests.pod('server')['hostNetwork'] = True


def other_restart_policy(manifests):
    manifests.pod('server')['restartPolicy'] = 'OnFailure'


def exec_probe(manifests):
    manifests.container('server')['livenessProbe']['exec'] = {'command': ['true']}


def other_kind(manifests):
    manifests.documents[0]['kind'] = 'Deployment'


UNKNOWN = {
    host_network: 'Job.spec.template.spec.hostNetwork',
    other_restart_policy: "Job.spec.template.spec.restartPolicy: 'OnFailure'",
    exec_probe: 'Job.spec.template.spec.containers.livenessProbe.exec',
    other_kind: 'kind Deployment',
}

for fault, expected in UNKNOWN.items():
    manifests = Manifests()
    fault(manifests)
    try:
        for document in manifests.documents:
            check_known(document)
        found = 'nothing'
    except UnknownField as unknown:
        found = str(unknown)
    if found != expected:
        is_good = False
        print(f'{fault.__name__}: expected "{expected}", found {found}')
sys.exit(0 if is_good else 1)
