"""Pushes to and pulls from a server whose program is the first argument, as any gRPC client can."""

import queue
import struct
import subprocess
import sys

import grpc

from proto import exchange_pb2

ELEMENTS = 4
INVALID_ARGUMENT = 3


def request(request_id, push=None, step=0, pull_step=None):
    message = exchange_pb2.ExchangeRequest()
    message.header.request_id = request_id
    message.header.job = 42
    message.header.incarnation = 100
    message.header.epoch = 1
    if push is not None:
        message.header.dense_step.push_step = step
        message.payload = struct.pack(f"<{len(push)}f", *push)
    if pull_step is not None:
        message.header.dense_step.pull_step = pull_step
    return message


class Stream:
    """One Exchange call, asked for the replies to one message at a time."""

    def __init__(self, channel):
        exchange = channel.stream_stream(
            "/capstan.v1.ParameterService/Exchange",
            request_serializer=exchange_pb2.ExchangeRequest.SerializeToString,
            response_deserializer=exchange_pb2.ExchangeReply.FromString,
        )
        self.requests = queue.Queue()
        self.replies = exchange(iter(self.requests.get, None), timeout=60)

    def ask(self, message):
        (reply,) = self.ask_together(message)
        return reply

    def ask_together(self, message):
        """The replies to the request and to each `next` of it, which come one by one."""
        self.requests.put(message)
        replies = []
        for asked in [message, *message.next]:
            reply = next(self.replies)
            assert reply.header.request_id == asked.header.request_id, reply.header
            assert not reply.next, "it was not said that they are read"
            replies.append(reply)
        return replies

    def end(self):
        self.requests.put(None)
        assert next(self.replies, None) is None, "a reply to nothing"
        assert self.replies.code() == grpc.StatusCode.OK, self.replies.details()


def check(address):
    stream = Stream(grpc.insecure_channel(address))
    gradients = [[1.0, -2.0, 0.5, 3.0], [0.25, 4.0, -1.5, 0.0], [-8.0, 0.125, 2.0, 1.0]]
    # Sums of these are exact in float32.
    values = [0.0] * ELEMENTS
    for step, gradient in enumerate(gradients):
        reply = stream.ask(request(7 + step, gradient, step, pull_step=step + 1))
        values = [value - 1.0 * pushed for value, pushed in zip(values, gradient)]
        assert reply.header.code == 0, reply.header
        assert reply.header.version == step + 1, reply.header
        assert list(struct.unpack(f"<{ELEMENTS}f", reply.payload)) == values, (reply, values)

    together = request(17, gradients[0], step=3, pull_step=4)
    together.next.append(request(18, gradients[1], step=4, pull_step=5))
    together.next.append(request(19, pull_step=5))
    for reply, gradient in zip(stream.ask_together(together), gradients[:2] + [[0.0] * ELEMENTS]):
        values = [value - 1.0 * pushed for value, pushed in zip(values, gradient)]
        assert reply.header.code == 0, reply.header
        assert list(struct.unpack(f"<{ELEMENTS}f", reply.payload)) == values, (reply, values)

    pulled = stream.ask(request(20, pull_step=5))
    assert list(struct.unpack(f"<{ELEMENTS}f", pulled.payload)) == values, pulled

    short = stream.ask(request(21, gradients[0][:3], step=5))
    assert short.header.code == INVALID_ARGUMENT, short.header
    assert "expected a gradient of 16 bytes" in short.header.message, short.header
    stream.end()


def main():
    with subprocess.Popen(sys.argv[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        check(server.stdout.readline().decode().strip())
        server.stdin.close()
        assert server.wait() == 0, server.returncode


main()
