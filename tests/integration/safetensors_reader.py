"""Checks a model's file against the summary of its job. Arguments: MODEL SUMMARY."""

import json
import sys

import safetensors
import xxhash

path, summary_path = sys.argv[1:]
with open(summary_path) as file:
    summary = json.load(file)
with open(path, 'rb') as file:
    contents = file.read()

tables = safetensors.deserialize(contents)
shapes = {name: tensor['shape'] for name, tensor in tables}
assert shapes == {
    'fc1.weight': [64, 128], 'fc1.bias': [128],
    'fc2.weight': [128, 64], 'fc2.bias': [64],
    'fc3.weight': [64, 10], 'fc3.bias': [10],
}, shapes
assert all(tensor['dtype'] == 'F32' for _, tensor in tables), tables

# The hash is of all tables in their order, which is that of their bytes.
header_bytes = 8 + int.from_bytes(contents[:8], 'little')
header = json.loads(contents[8:header_bytes])
metadata = header.pop('__metadata__')
data = dict(tables)
names = sorted(header, key=lambda name: header[name]['data_offsets'])
digest = xxhash.xxh3_64()
for name in names:
    digest.update(bytes(data[name]['data']))
assert digest.hexdigest() == summary['parameters_xxh3'], (digest.hexdigest(), summary)
assert metadata['parameters_xxh3'] == summary['parameters_xxh3'], metadata
assert float(metadata['test_accuracy']) == summary['test_accuracy'], metadata
assert metadata['job'] == 'capstan' and metadata['step'] == '20', metadata
print('read', len(tables), 'tables of', len(contents), 'bytes')
