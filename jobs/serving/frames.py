"""Messages between the server and a model's process: a JSON object, and the bytes that go with it.

  u32 bytes of the JSON | JSON {..., "sizes": [bytes of each part]} | the parts
"""
import json
import struct

LENGTH = struct.Struct(">I")


def frame(message, parts=()):
    """Returns a message as buffers, to be sent one after the other."""
    head = json.dumps(message | {"sizes": [len(part) for part in parts]}).encode()
    return [LENGTH.pack(len(head)) + head, *parts]
