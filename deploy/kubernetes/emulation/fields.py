"""What the emulation of Kubernetes knows of manifests. Everything else is an error."""

# Fields by path. A list's elements have the path of the list. A value: DEEP, where all below is data;
# IGNORED, where the emulation has nothing that it could change; or the only values that are known.
DEEP = object()
IGNORED = object()

METADATA = {
    'name': IGNORED,
    'namespace': IGNORED,
    'labels': DEEP,
    'annotations': DEEP,
    'creationTimestamp': IGNORED,
}

HTTP_PROBE = {
    'httpGet': {'path': IGNORED, 'port': IGNORED},
    'periodSeconds': IGNORED,
    'timeoutSeconds': IGNORED,
    'failureThreshold': IGNORED,
}

POD = {
    'metadata': METADATA,
    'spec': {
        'subdomain': IGNORED,
        'automountServiceAccountToken': [False],
        'enableServiceLinks': [False],
        'terminationGracePeriodSeconds': IGNORED,
        # There is one node.
        'topologySpreadConstraints': {
            'maxSkew': [1],
            'topologyKey': ['kubernetes.io/hostname'],
            'whenUnsatisfiable': ['ScheduleAnyway'],
            'labelSelector': {'matchLabels': DEEP},
        },
        'securityContext': {
            'runAsNonRoot': [True],
            'runAsUser': IGNORED,
            'runAsGroup': IGNORED,
            'fsGroup': IGNORED,
            'seccompProfile': {'type': ['RuntimeDefault']},
        },
        'containers': {
            'name': IGNORED,
            'image': IGNORED,
            'command': IGNORED,
            'args': IGNORED,
            'env': {'name': IGNORED, 'value': IGNORED,
                    'valueFrom': {'fieldRef': {'fieldPath': [
                        'metadata.namespace', 'metadata.name',
                        "metadata.annotations['batch.kubernetes.io/job-completion-index']"]}}},
            'ports': {'name': IGNORED, 'containerPort': IGNORED},
            'startupProbe': HTTP_PROBE,
            'livenessProbe': HTTP_PROBE,
            'readinessProbe': HTTP_PROBE,
            'resources': {'requests': DEEP, 'limits': DEEP},
            'securityContext': {
                'allowPrivilegeEscalation': [False],
                'readOnlyRootFilesystem': [True],
                'capabilities': {'drop': ['ALL']},
            },
            'terminationMessagePolicy': ['FallbackToLogsOnError'],
            'volumeMounts': {'name': IGNORED, 'mountPath': IGNORED, 'readOnly': IGNORED},
        },
        'volumes': {
            'name': IGNORED,
            'configMap': {'name': IGNORED},
            'persistentVolumeClaim': {'claimName': IGNORED},
            'projected': {'defaultMode': IGNORED, 'sources': {'secret': {'name': IGNORED}}},
        },
    },
}



def pod(restart_policy):
    return {**POD, 'spec': {**POD['spec'], 'restartPolicy': [restart_policy]}}


KINDS = {
    'Job': {
        'metadata': METADATA,
        'spec': {
            'completionMode': ['Indexed'],
            'completions': IGNORED,
            'parallelism': IGNORED,
            'backoffLimit': IGNORED,
            'podFailurePolicy': {
                'rules': {
                    'action': ['FailJob', 'Ignore'],
                    'onExitCodes': {'containerName': IGNORED, 'operator': ['In'],
                                    'values': IGNORED},
                    'onPodConditions': {'type': ['DisruptionTarget'], 'status': ['True']},
                },
            },
            'template': pod('Never'),
        },
    },
    'StatefulSet': {
        'metadata': METADATA,
        'spec': {
            'podManagementPolicy': ['Parallel'],
            'replicas': IGNORED,
            'selector': DEEP,
            'serviceName': IGNORED,
            'template': pod('Always'),
        },
    },
    'Service': {
        'metadata': METADATA,
        'spec': {
            'clusterIP': ['None'],
            'publishNotReadyAddresses': IGNORED,
            'selector': IGNORED,
            'ports': IGNORED,
        },
    },
    'ConfigMap': {'metadata': METADATA, 'data': DEEP},
    'Secret': {'metadata': METADATA, 'data': DEEP, 'type': ['Opaque']},
    'PersistentVolumeClaim': {
        'metadata': METADATA,
        'spec': {'accessModes': IGNORED, 'resources': {'requests': DEEP}},
    },
    # Only real clusters act on these.
    'PodDisruptionBudget': {'metadata': METADATA, 'spec': DEEP},
    'NetworkPolicy': {'metadata': METADATA, 'spec': DEEP},
}


class UnknownField(Exception):
    """A manifest has something that the emulation does not know."""


def check_known(document):
    """Raises UnknownField unless everything in the object is known."""
    kind = document['kind']
    if kind not in KINDS:
        raise UnknownField(f'kind {kind}')
    for field, value in document.items():
        if field not in ('apiVersion', 'kind'):
            _check({field: value}, KINDS[kind], kind)


def _check(value, known, path):
    if known is DEEP:
        return
    if isinstance(value, list):
        for element in value:
            _check(element, known, path)
    elif isinstance(value, dict) and known is not IGNORED:
        for field, inner in value.items():
            if not isinstance(known, dict) or field not in known:
                raise UnknownField(f'{path}.{field}')
            _check(inner, known[field], f'{path}.{field}')
    elif isinstance(known, dict) or (isinstance(known, list) and value not in known):
        raise UnknownField(f'{path}: {value!r}')
