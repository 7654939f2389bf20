#!/usr/bin/env bash
# A client in Python: Debian's grpc package, and messages that protoc makes of the .proto files.
set -euo pipefail

root="${TEST_SRCDIR}/capstan"
protoc -I"${root}" --python_out="${TEST_TMPDIR}" proto/exchange.proto
# Debian's own interpreter, which sees Debian's packages.
PYTHONPATH="${TEST_TMPDIR}" PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 \
  "${root}/tests/transport/grpc_python_client.py" "${root}/tests/transport/exchange_server"
