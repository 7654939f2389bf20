#!/usr/bin/python3
"""A worker of its own: trains linear regression by the C interface (worker/client_api/capstan.h).
Usage: linear_regression.py LIBCAPSTAN [--steps=N] [--step_seconds=S] [--unknown_steps]
       [--health_listen=HOST:PORT] [--metrics_listen=HOST:PORT] [--fail_after]
LIBCAPSTAN is the path of libcapstan.so. With --unknown_steps the job hears of N at the end only. With
--fail_after, worker 1 fails when the job is done."""

import argparse
import ctypes
import os
import random
import sys
import time
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t
from ctypes import c_uint64, c_void_p, sizeof

TRUE_WEIGHTS = (2.0, -3.0, 0.5)
TRUE_BIAS = 1.0
SAMPLES = 16
NO_LIMIT = -1
NOT_KNOWN = float('nan')


class ConnectOptions(ctypes.Structure):
    _fields_ = [('struct_size', c_size_t), ('coordinator', c_char_p), ('keys', c_char_p),
                ('insecure', c_int32), ('has_rank', c_int32), ('rank', c_int32),
                ('steps', c_int64), ('rpc_deadline_seconds', c_double), ('device', c_char_p),
                ('trace', c_char_p), ('record_history', c_char_p), ('metrics_listen', c_char_p),
                ('health_listen', c_char_p)]


class Table(ctypes.Structure):
    _fields_ = [('struct_size', c_size_t), ('name', c_char_p), ('shape', POINTER(c_uint64)),
                ('dimensions', c_size_t), ('layer', c_int32), ('optimizer', c_void_p),
                ('initial', c_void_p), ('initial_dtype', c_int32),
                ('initial_from_worker', c_int32), ('initial_stddev', c_double)]


def load(path):
    library = ctypes.CDLL(path)
    library.capstan_last_error.restype = c_char_p
    library.capstan_step.restype = c_int64
    for function in (library.capstan_values, library.capstan_gradient):
        function.restype = POINTER(c_float)
    return library


class Job:
    """A connected job. Ends the program with the library's message when a call fails."""

    def __init__(self, arguments):
        self._library = load(arguments.libcapstan)
        self._job = c_void_p()
        options = ConnectOptions(struct_size=sizeof(ConnectOptions),
                                 steps=0 if arguments.unknown_steps else arguments.steps,
                                 metrics_listen=arguments.metrics_listen.encode() or None,
                                 health_listen=arguments.health_listen.encode() or None)
        self._check(self._library.capstan_connect(byref(options), byref(self._job)))

    def _check(self, status):
        if status != 0:
            sys.exit(f'linear_regression: {self._library.capstan_last_error().decode()}')

    def add_table(self, name, size):
        """Its values begin at random, near 0."""
        table, shape = c_int32(), (c_uint64 * 1)(size)
        self._check(self._library.capstan_add_table(self._job, byref(Table(
            struct_size=sizeof(Table), name=name, shape=shape, dimensions=1,
            initial_stddev=0.1)), byref(table)))
        return table.value

    def start(self):
        self._check(self._library.capstan_start(self._job, c_int64(NO_LIMIT)))

    def step(self):
        return self._library.capstan_step(self._job)

    def rank(self):
        return self._library.capstan_rank(self._job)

    def values(self, table):
        return self._library.capstan_values(self._job, table)

    def gradient(self, table):
        return self._library.capstan_gradient(self._job, table)

    def wait(self):
        self._check(self._library.capstan_wait(self._job, 0, c_int64(NO_LIMIT)))

    def push(self):
        self._check(self._library.capstan_push(self._job, 0, c_int64(NO_LIMIT)))

    def end_step(self, loss):
        self._check(self._library.capstan_end_step(
            self._job, c_double(loss), c_uint64(SAMPLES), c_int64(NO_LIMIT)))

    def finish(self):
        is_evaluator = c_int32()
        self._check(self._library.capstan_finish(self._job, byref(is_evaluator),
                                                 c_int64(NO_LIMIT)))
        return bool(is_evaluator.value)

    def report(self, loss):
        self._check(self._library.capstan_report(self._job, c_double(NOT_KNOWN), c_double(loss),
                                                 c_uint64(SAMPLES), c_int64(NO_LIMIT)))

    def close(self):
        self._library.capstan_close(self._job)


def samples(seed):
    numbers = random.Random(seed)
    for _ in range(SAMPLES):
        features = [numbers.uniform(-1, 1) for _ in TRUE_WEIGHTS]
        yield features, TRUE_BIAS + sum(w * x for w, x in zip(TRUE_WEIGHTS, features))


def loss_and_gradient(weights, bias, data):
    """The mean squared error, halved, and its derivatives."""
    loss, of_weights, of_bias = 0.0, [0.0] * len(TRUE_WEIGHTS), 0.0
    for features, target in data:
        error = bias[0] + sum(weights[i] * x for i, x in enumerate(features)) - target
        loss += error * error / 2 / SAMPLES
        of_bias += error / SAMPLES
        of_weights = [g + error * x / SAMPLES for g, x in zip(of_weights, features)]
    return loss, of_weights, of_bias


def train(job, arguments):
    weights, bias = job.add_table(b'weights', len(TRUE_WEIGHTS)), job.add_table(b'bias', 1)
    job.start()
    print(f'joined as worker {job.rank()}', flush=True)
    values = job.values(weights), job.values(bias)
    while job.step() < arguments.steps:
        job.wait()
        data = samples(f'{job.rank()}, {job.step()}')
        loss, of_weights, of_bias = loss_and_gradient(*values, data)
        for i, derivative in enumerate(of_weights):
            job.gradient(weights)[i] = derivative
        job.gradient(bias)[0] = of_bias
        time.sleep(arguments.step_seconds)
        job.push()
        job.end_step(loss)
    if job.finish():
        job.report(loss_and_gradient(*values, samples('test'))[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('libcapstan')
    parser.add_argument('--steps', type=int, default=100)
    parser.add_argument('--step_seconds', type=float, default=0)
    parser.add_argument('--unknown_steps', action='store_true')
    parser.add_argument('--health_listen', default='')
    parser.add_argument('--metrics_listen', default='')
    parser.add_argument('--fail_after', action='store_true')
    arguments = parser.parse_args()
    job = Job(arguments)
    train(job, arguments)
    job.close()
    if arguments.fail_after and os.environ.get('RANK') == '1':
        sys.exit('linear_regression: the disk is full')


if __name__ == '__main__':
    main()
