"""Checks what no schema can in the manifests of an overlay: that their parts fit each other and the
programs. Prints each fault. Arguments: PROGRAMS MANIFEST..., where MANIFEST is what kubectl kustomize
prints. The program check_test.py shows that faults are found."""

import re
import subprocess
import sys
import tempfile

import yaml

# Objects that the user makes.
SECRETS = {'capstan-tls': {'tls.crt', 'tls.key', 'ca.crt'}, 'capstan-token': {'token'}}
# What each program serves, by its flag, with the name of the port.
PORTS = {
    'capstan_coordinator': {'listen': 'coordinator', 'health_listen': 'health',
                            'metrics_listen': 'metrics'},
    'capstan_server': {'listen': 'server', 'health_listen': 'health', 'metrics_listen': 'metrics'},
    'capstan_worker': {'health_listen': 'health', 'metrics_listen': 'metrics'},
}
PROBES = {'startupProbe': '/healthz', 'livenessProbe': '/healthz', 'readinessProbe': '/readyz'}


class Role:
    """The pods of one role: of a Job, of the Jobs of a JobSet, or of a StatefulSet."""

    def __init__(self, kind, job, hostname, subdomain):
        self.kind, self.spec = kind, job
        self.name = job['template']['metadata']['labels']['app.kubernetes.io/component']
        self.stays = kind == 'StatefulSet'
        self.count = job['replicas' if self.stays else 'completions']
        self.hostname = hostname  # without the number of the pod
        self.subdomain = subdomain
        self.labels = job['template']['metadata']['labels']
        self.pod = job['template']['spec']
        (self.container,) = self.pod['containers']
        (self.program,) = self.container['command']
        self.flags = {}
        for argument in self.container['args']:
            name, _, value = argument.removeprefix('--').partition('=')
            self.flags[name] = value
        self.ports = {port['name']: port['containerPort'] for port in self.container['ports']}
        # A program of the user's has its own flags, and gets the rest by its environment.
        self.environment = {variable['name']: variable.get('value')
                            for variable in self.container['env']}
        self.is_own_program = self.program not in PORTS
        if self.is_own_program:
            self.flags['coordinator'] = self.environment.get('CAPSTAN_COORDINATOR')
            self.flags['keys'] = self.environment.get('CAPSTAN_KEYS')

    def hosts(self):
        return {f'{self.hostname}-{index}.{self.subdomain}.$(NAMESPACE).svc'
                for index in range(self.count)}


def roles_of(documents):
    roles = {}
    for document in documents:
        spec, name = document.get('spec'), document['metadata']['name']
        if document['kind'] == 'Job':
            role = Role('Job', spec, name, spec['template']['spec']['subdomain'])
            roles[role.name] = role
        if document['kind'] == 'StatefulSet':
            role = Role('StatefulSet', spec, name, spec['serviceName'])
            roles[role.name] = role
        if document['kind'] == 'JobSet':
            for job in spec['replicatedJobs']:
                assert job['replicas'] == 1, job
                role = Role('JobSet', job['template']['spec'], f'{name}-{job["name"]}-0',
                            spec['network']['subdomain'])
                roles[role.name] = role
    return roles


class Checker:
    def __init__(self, documents, programs):
        self.documents, self.programs = documents, programs
        self.roles = roles_of(documents)
        self.job = self.effective_job()
        # Each shard is on two servers.
        self.has_copies = 'replicas: 2' in self.job
        self.faults = []

    def expect(self, is_true, fault):
        if not is_true:
            self.faults.append(fault)

    def all_of(self, kind):
        return [document for document in self.documents if document['kind'] == kind]

    def names(self, kind):
        return {document['metadata']['name'] for document in self.all_of(kind)}

    def check(self):
        self.expect(self.roles.keys() == {'coordinator', 'server', 'worker'},
                    f'roles are {sorted(self.roles)}')
        for role in self.roles.values():
            self.check_flags(role)
            self.check_ports(role)
            self.check_volumes(role)
            self.check_return(role)
        self.check_state()
        self.check_spread()
        self.check_services()
        self.check_policies()
        self.check_job()
        return self.faults

    def check_names(self, role):
        program = f'{self.programs}/{role.program}'
        text = subprocess.run([program, '--help'], capture_output=True, text=True, check=True).stdout
        known = set(re.findall(r'^  --(?:\[no\])?([a-z_0-9]+)', text, re.MULTILINE))
        for flag in role.flags:
            self.expect(flag in known, f'{role.name}: {role.program} has no flag --{flag}')

    def check_meeting(self, role):
        """torch.distributed meets at the worker with rank 0, at a port of 1024 or more."""
        address = role.environment.get('MASTER_ADDR')
        first = f'{role.hostname}-0.'
        self.expect(address in role.hosts() and address.startswith(first),
                    f'{role.name}: MASTER_ADDR is {address}')
        self.expect(int(role.environment.get('MASTER_PORT', 0)) >= 1024,
                    f'{role.name}: MASTER_PORT is missing')
        own = [policy['spec']['ingress'] for policy in self.all_of('NetworkPolicy')
               if policy['spec']['podSelector']['matchLabels'] == role.labels]
        self.expect(any('ports' not in rule and
                        rule['from'] == [{'podSelector': {'matchLabels': role.labels}}]
                        for rules in own for rule in rules),
                    f'{role.name}: workers do not reach each other at all ports')

    def check_flags(self, role):
        if role.is_own_program:
            self.expect(role.environment.get('WORLD_SIZE') == str(role.count),
                        f'{role.name}: WORLD_SIZE is not {role.count}')
            self.check_meeting(role)
            self.expect(role.environment.get('PYTHONUNBUFFERED') == '1',
                        f'{role.name}: what Python prints comes late without PYTHONUNBUFFERED=1')
        else:
            self.check_names(role)
        self.expect(('insecure' in role.flags) == ('insecure' in self.roles['worker'].flags),
                    f'{role.name}: --insecure is not the same in all roles')
        coordinator = self.roles['coordinator']
        if role is not coordinator:
            (host,) = coordinator.hosts()
            expected = f'{host}:{coordinator.ports["coordinator"]}'
            self.expect(role.flags.get('coordinator') == expected,
                        f'{role.name}: --coordinator is not {expected}')
        if role.name == 'server':
            number = '$(POD)' if role.stays else f'{role.hostname}-$(JOB_COMPLETION_INDEX)'
            host = role.flags['advertise_host'].replace(number, f'{role.hostname}-0')
            self.expect(host in role.hosts(), f'--advertise_host is none of {role.hosts()}')

    def check_ports(self, role):
        served = {}
        for flag, name in PORTS.get(role.program, PORTS['capstan_worker']).items():
            if flag in role.flags:
                served[name] = int(role.flags[flag].rsplit(':', 1)[1])
        self.expect(served == role.ports,
                    f'{role.name}: serves {served}, but its ports are {role.ports}')
        for probe, path in PROBES.items():
            get = role.container[probe]['httpGet']
            self.expect(get['port'] == 'health' and 'health' in served and get['path'] == path,
                        f'{role.name}: {probe} asks {get}')

    def check_volumes(self, role):
        volumes = {volume['name']: volume for volume in role.pod['volumes']}
        mounts = {mount['name']: mount for mount in role.container['volumeMounts']}
        self.expect(volumes.keys() == mounts.keys(),
                    f'{role.name}: volumes {sorted(volumes)}, mounts {sorted(mounts)}')
        for volume in volumes.values():
            self.check_volume(role, volume)
        folder = mounts['keys']['mountPath']
        self.expect(role.flags.get('keys') == folder, f'{role.name}: --keys is not {folder}')
        if 'job' in mounts:
            (job,) = self.all_of('ConfigMap')
            files = {f'{mounts["job"]["mountPath"]}/{name}' for name in job['data']}
            self.expect(role.flags['job'] in files, f'{role.name}: --job is none of {files}')

    def check_volume(self, role, volume):
        if 'configMap' in volume:
            name = volume['configMap']['name']
            self.expect(name in self.names('ConfigMap'), f'there is no ConfigMap {name}')
        elif 'persistentVolumeClaim' in volume:
            name = volume['persistentVolumeClaim']['claimName']
            self.expect(name in self.names('PersistentVolumeClaim'), f'there is no claim {name}')
        else:
            keys = set()
            for source in volume['projected']['sources']:
                name = source['secret']['name']
                self.expect(name in SECRETS, f'{role.name}: unknown Secret {name}')
                keys |= SECRETS.get(name, set())
            for secret in self.all_of('Secret'):
                name = secret['metadata']['name']
                self.expect(secret['data'].keys() == SECRETS.get(name),
                            f'Secret {name} has {sorted(secret["data"])}')
            wanted = {'token'} if 'insecure' in role.flags else {'tls.crt', 'tls.key', 'ca.crt',
                                                                 'token'}
            self.expect(keys == wanted, f'{role.name}: keys {sorted(keys)}')

    def check_return(self, role):
        """A lost member's pod comes again; wrong flags are not tried again."""
        self.expect(role.pod['restartPolicy'] == ('Always' if role.stays else 'Never'),
                    f'{role.name}: restartPolicy')
        if role.stays:
            self.expect(role.spec['selector']['matchLabels'].items() <= role.labels.items(),
                        f'{role.name}: the StatefulSet does not select its pods')
            # A server is ready when all servers have come.
            self.expect(role.spec['podManagementPolicy'] == 'Parallel',
                        f'{role.name}: podManagementPolicy')
            return
        if role.name == 'worker' or (role.name == 'server' and self.has_copies):
            for code, what in ((137, 'a killed'), (143, 'an evicted')):
                action = self.action(role, code)
                may_fail = role.spec['backoffLimit'] > 0
                self.expect(action == 'Ignore' or (action == 'Count' and may_fail),
                            f'{what} {role.name} does not come again')
        # Each start of the job takes up to two from each pod. A StatefulSet starts for ever.
        starts = self.roles['coordinator'].spec.get('backoffLimit', 10)
        needed = 2 * starts * role.count
        if role.name != 'coordinator':
            self.expect(role.spec['backoffLimit'] >= needed,
                        f'{role.name}: {starts} starts need a backoffLimit of {needed}')
        if 'podFailurePolicy' in role.spec:
            self.expect(self.action(role, 2) == 'FailJob',
                        f'{role.name}: wrong flags do not fail the Job')

    def check_state(self):
        """The next pod of a lost coordinator finds the job in a volume that outlasts pods."""
        role = self.roles['coordinator']
        claims = {volume['name'] for volume in role.pod['volumes']
                  if 'persistentVolumeClaim' in volume}
        folders = [mount['mountPath'] for mount in role.container['volumeMounts']
                   if mount['name'] in claims and not mount.get('readOnly')]
        state = role.flags.get('state')
        comes_again = role.stays or role.spec['backoffLimit'] > 0
        self.expect(comes_again == (state is not None) == ('take_over' in role.flags),
                    'the next pod of a lost coordinator does not go on with the job')
        self.expect(state is None or any(state.startswith(f'{folder}/') for folder in folders),
                    f'{state} of --state is in no volume')

    def check_spread(self):
        """Servers with copies of the same shards are on different nodes, if there are some."""
        server = self.roles['server']
        selected = [spread['labelSelector']['matchLabels']
                    for spread in server.pod.get('topologySpreadConstraints', [])
                    if spread['topologyKey'] == 'kubernetes.io/hostname']
        self.expect(selected == [server.labels],
                    'the servers are not spread over the nodes')

    @staticmethod
    def action(role, code):
        for rule in role.spec['podFailurePolicy']['rules']:
            if code in rule.get('onExitCodes', {}).get('values', []):
                return rule['action']
        return 'Count'

    def check_services(self):
        for service in self.all_of('Service'):
            spec = service['spec']
            self.expect(spec['clusterIP'] == 'None' and spec['publishNotReadyAddresses'],
                        'the Service does not give names to pods that are not ready')
            ports = {}
            for role in self.roles.values():
                self.expect(spec['selector'].items() <= role.labels.items(),
                            f'{role.name}: the Service does not select its pods')
                self.expect(role.subdomain == service['metadata']['name'],
                            f'{role.name}: subdomain {role.subdomain} is no Service')
                ports.update(role.ports)
            for port in spec['ports']:
                self.expect(ports.get(port['targetPort']) == port['port'],
                            f'Service port {port["name"]}: no pod has it')
        self.expect(bool(self.all_of('Service')) or bool(self.all_of('JobSet')), 'no Service')

    def check_policies(self):
        for budget in self.all_of('PodDisruptionBudget'):
            selected = [role for role in self.roles.values()
                        if budget['spec']['selector']['matchLabels'].items() <= role.labels.items()]
            # One worker may go. With copies, one server may go, too.
            expected = sum(role.count - (role.name == 'worker' or
                                         (role.name == 'server' and self.has_copies))
                           for role in selected)
            self.expect(budget['spec']['minAvailable'] == expected,
                        f'{budget["metadata"]["name"]} wants {budget["spec"]["minAvailable"]} '
                        f'pods, not {expected}')
        (policy,) = (one for one in self.all_of('NetworkPolicy')
                     if one['metadata']['name'] == 'capstan')
        selector = policy['spec']['podSelector']['matchLabels']
        admitted = {port['port'] for rule in policy['spec']['ingress'] for port in rule['ports']}
        # The kubelet needs no rule.
        needed = {port for role in self.roles.values() for name, port in role.ports.items()
                  if name != 'health'}
        self.expect(admitted == needed, f'the NetworkPolicy admits {admitted}, served: {needed}')
        self.expect(all(selector.items() <= role.labels.items() for role in self.roles.values()),
                    'the NetworkPolicy does not select all pods')

    def effective_job(self):
        (config,) = self.all_of('ConfigMap')
        (text,) = config['data'].values()
        with tempfile.NamedTemporaryFile('w', suffix='.textproto') as file:
            file.write(text)
            file.flush()
            return subprocess.run([f'{self.programs}/capstan', 'job', f'--job={file.name}'],
                                  capture_output=True, text=True, check=True).stdout

    def check_job(self):
        job = self.job
        for role in ('server', 'worker'):
            number = int(re.search(rf'num_{role}s: (\d+)', job)[1])
            self.expect(number == self.roles[role].count,
                        f'the job has {number} {role}s, but {self.roles[role].count} pods')
        coordinator = self.roles['coordinator']
        self.expect(('stay' in coordinator.flags) == coordinator.stays,
                    'only the coordinator of a StatefulSet has --stay')
        # A node may take as long to start as the job waits for its members.
        longest = re.search(r'registration_seconds: (\d+)', job)[1]
        for role in ('server', 'worker'):
            self.expect(self.roles[role].is_own_program
                        or self.roles[role].flags.get('connect_seconds') == longest,
                        f'{role}: --connect_seconds is not {longest}, as registration_seconds')
        folder = re.search(r'^ *dir: "(.*)"', job, re.MULTILINE)
        for name in ('coordinator', 'server'):
            mounts = {mount['mountPath']: mount
                      for mount in self.roles[name].container['volumeMounts']}
            checkpoints = mounts.get(folder[1]) if folder else None
            self.expect(folder is None or (checkpoints and not checkpoints.get('readOnly')),
                        f'{name}: cannot write checkpoints into {folder and folder[1]}')
        self.expect(folder is None or 'restore: "latest"' in job,
                    'a job that starts again does not go on from its newest checkpoint')


def main():
    is_good = True
    for path in sys.argv[2:]:
        with open(path) as file:
            faults = Checker(list(yaml.safe_load_all(file)), sys.argv[1]).check()
        for fault in faults:
            is_good = False
            print(f'{path}: {fault}')
    sys.exit(0 if is_good else 1)


if __name__ == '__main__':
    main()
