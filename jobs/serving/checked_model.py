"""Opens a model file for retina_service.py. Loading TorchScript runs what the file says, and so do
its methods: a file that retina-convert cannot have written is refused. The rules are those of
shared/checkpoint/foreign/script_archive.cpp and shared/evaluation/converted/script_operators.cpp, which give
the reasons; tests/evaluate/checked_model_test.py holds the lists against each other.
"""
import pathlib
import pickletools
import re
import zlib

FOLDER, CODE = "archive/", "code/__torch__/retina.py"
PICKLES = ("data.pkl", CODE + ".debug_pkl")
RECORDS = {*PICKLES, CODE, "constants.pkl", "version", "byteorder", "extra/retina.json",
           ".data/serialization_id"}
PACKED_FOLDER, MAX_PACKED_BYTES = "archive/code/", 16 << 20
NO_CONSTANTS = b"\x80\x02)."  # an empty tuple
MODULES = ("RetinaNet", "Classifier", "input", "body", "pyramid", "classification", "regression",
           "anchors", "suppression")
ELEMENT_BYTES = {"torch FloatStorage": 4, "torch DoubleStorage": 8, "torch HalfStorage": 2,
                 "torch BFloat16Storage": 2, "torch LongStorage": 8, "torch IntStorage": 4,
                 "torch ShortStorage": 2, "torch CharStorage": 1, "torch ByteStorage": 1,
                 "torch BoolStorage": 1}
GLOBALS = {*ELEMENT_BYTES, *(f"__torch__.retina {name}" for name in MODULES),
           "torch._utils _rebuild_tensor_v2", "collections OrderedDict",
           "torch.jit._pickle restore_type_tag", "torch.jit._pickle build_intlist"}
INTEGERS = {"BININT", "BININT1", "BININT2", "LONG1"}
OPCODES = INTEGERS | {
    "PROTO", "STOP", "MARK", "GLOBAL", "REDUCE", "NEWOBJ", "BUILD", "BINPERSID", "BINPUT",
    "LONG_BINPUT", "BINGET", "LONG_BINGET", "BINUNICODE", "BINFLOAT", "NEWTRUE", "NEWFALSE", "NONE",
    "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_LIST", "APPENDS", "EMPTY_DICT",
    "SETITEMS"}
OPERATORS = {
    "aten::Float", "aten::Int", "aten::__getitem__", "aten::__not__", "aten::add", "aten::any",
    "aten::append", "aten::arange", "aten::cat", "aten::clamp", "aten::constant_pad_nd",
    "aten::conv2d", "aten::copy_", "aten::dim", "aten::div", "aten::eq", "aten::equal",
    "aten::exp", "aten::expand", "aten::flatten", "aten::floordiv", "aten::group_norm",
    "aten::gt", "aten::index", "aten::le", "aten::len", "aten::linear", "aten::logical_and",
    "aten::logical_not", "aten::lt", "aten::max", "aten::max_pool2d", "aten::mean", "aten::min",
    "aten::mul", "aten::nonzero", "aten::permute", "aten::relu", "aten::relu_",
    "aten::remainder", "aten::repeat", "aten::reshape", "aten::select", "aten::sigmoid",
    "aten::size", "aten::slice", "aten::softmax", "aten::sort", "aten::squeeze", "aten::stack",
    "aten::sub", "aten::tensor", "aten::to", "aten::topk", "aten::triu", "aten::unsqueeze",
    "aten::upsample_bilinear2d", "aten::upsample_nearest2d", "aten::zeros", "aten::zeros_like",
    "prim::CallMethod", "prim::Constant", "prim::GetAttr", "prim::If", "prim::ListConstruct",
    "prim::Loop", "prim::RaiseException", "prim::TupleConstruct", "prim::TupleUnpack",
    "prim::device", "prim::dtype", "prim::is_cuda", "prim::max", "prim::min"}


class Refused(Exception):
    """What is wrong with the file, in one line."""


# --- Before PyTorch sees the file ----------------------------------------------------------------
def number(data, place, size):
    if place < 0 or place + size > len(data):
        raise Refused("damaged: its zip directory points outside the file")
    return int.from_bytes(data[place:place + size], "little")


def inflated(name, packed, size):
    reader = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        content = reader.decompress(packed, min(size, MAX_PACKED_BYTES) + 1)
    except zlib.error as error:
        raise Refused(f"damaged: its file {name[:80]!r} does not unpack ({error})") from None
    if len(content) != size or not reader.eof:
        raise Refused(f"its file {name[:80]!r} unpacks to a different size than {size} bytes")
    return content


def stored_files(data):
    """{name: content} of a zip that compresses its code alone. What two readers could understand in
    two ways is refused: PyTorch reads it again, with another one than Python's."""
    end = data.rfind(b"PK\5\6", 0, max(len(data) - 18, 0))
    if end < 0 or number(data, end + 20, 2) != len(data) - end - 22:
        raise Refused("cut short: the zip directory at its end is missing")
    last, count, size, place = (end, number(data, end + 10, 2), number(data, end + 12, 4),
                                number(data, end + 16, 4))
    one_disk = number(data, end + 4, 4) == 0 and number(data, end + 8, 2) == count
    if end >= 76 and data[end - 20:end - 16] == b"PK\6\7":
        last = end - 76
        count, size, place = (number(data, last + field, 8) for field in (32, 40, 48))
        one_disk = number(data, last + 16, 8) == 0 and number(data, last + 24, 8) == count
        if number(data, end - 12, 8) != last or data[last:last + 4] != b"PK\6\6":
            raise Refused("damaged: its zip64 record is invalid")
    if not one_disk or place + size != last:
        raise Refused("damaged: its zip directory is not where it should be")
    files, names, places = {}, set(), []
    for _ in range(count):
        if data[place:place + 4] != b"PK\1\2":
            raise Refused("damaged: an entry of its zip directory is invalid")
        flags, method = number(data, place + 8, 2), number(data, place + 10, 2)
        name_bytes, extra_bytes = number(data, place + 28, 2), number(data, place + 30, 2)
        extra = place + 46 + name_bytes
        name = data[place + 46:extra].decode("ascii", "replace")
        # Sizes, and where the file begins; those that need 64 bits stand in the first such field.
        fields = {key: number(data, place + key, 4) for key in (24, 20, 42)}
        extra_end = extra + extra_bytes
        while extra + 4 <= extra_end:
            field, extra = extra + 4, extra + 4 + number(data, extra + 2, 2)
            if number(data, field - 4, 2) == 1:
                for key in fields:
                    if fields[key] == 0xFFFFFFFF:
                        fields[key], field = number(data, field, 8), field + 8
                break
        place = extra_end + number(data, place + 32, 2)
        packed = method != 0 or fields[20] != fields[24]
        if flags & 1 or packed and not (method == 8 and name.startswith(PACKED_FOLDER)):
            raise Refused(f"its file {name[:80]!r} is compressed or encrypted")
        local = fields[42]
        if data[local:local + 4] != b"PK\3\4":
            raise Refused("damaged: a file's header in its zip is invalid")
        start = local + 30 + number(data, local + 26, 2) + number(data, local + 28, 2)
        if start + fields[20] > len(data):
            raise Refused(f"damaged: its file {name[:80]!r} ends outside the zip")
        if name.lower() in names:
            raise Refused(f"two files in its zip have the same name, {name[:80]!r}")
        names.add(name.lower())
        places.append((start, start + fields[20]))
        files[name] = memoryview(data)[start:start + fields[20]]
        if packed:
            files[name] = inflated(name, files[name], fields[24])
    if place != last:
        raise Refused("damaged: its zip directory is too long")
    places.sort()
    if any(next_start < end for (_, end), (next_start, _) in zip(places, places[1:])):
        raise Refused("two files in its zip overlap")
    return files


NAME, TYPES = r"(?!__)[A-Za-z_]\w*", r"[\w.,:\[\] ]*"
CLASS = re.compile(rf"class {NAME}\(Module\):", re.ASCII)
ATTRIBUTE = re.compile(
    rf'__buffers__ = \[\]|__parameters__ = \[("{NAME}", )*\]|{NAME} : '
    rf"(Tensor|bool|int|float|str|List\[str\]|List\[int\]|__torch__\.retina\.{NAME})", re.ASCII)
METHOD = re.compile(rf"def {NAME}\(({TYPES})\) -> ({TYPES}):", re.ASCII)
OTHER_BYTE = re.compile(r"[^ -~\n]|[\\'#;]|\"{3}")


def closes(types):
    """Whether each bracket has its partner."""
    open_brackets = 0
    for character in types:
        open_brackets += (character == "[") - (character == "]")
        if open_brackets < 0:
            return False
    return open_brackets == 0


def check_code(code):
    """Only bodies of methods are left to PyTorch's parser, which compiles but does not run them."""
    odd = OTHER_BYTE.search(code)
    if odd:
        raise Refused(f"{CODE} holds {odd.group()!r}, which retina-convert never writes")
    if not code.endswith("\n"):
        raise Refused(f"{CODE} is cut short")
    lines = iter(code[:-1].split("\n"))
    in_class = in_method = False
    for line in lines:
        text = line.lstrip(" ")
        indent, fits = len(line) - len(text), False
        if indent == 0:
            in_class, in_method, fits = True, False, CLASS.fullmatch(text)
        elif indent == 2 and in_class:
            in_method = text.startswith("def ")
            if in_method:
                while text.endswith(","):
                    text += next(lines, "")
                head = METHOD.fullmatch(text)
                fits = head and all(closes(types) for types in head.groups())
            else:
                fits = ATTRIBUTE.fullmatch(text)
        elif indent >= 4:
            fits = in_method and text
        if not fits:
            raise Refused(f"{CODE}: retina-convert never writes the line {text[:80]!r}")


def check_pickle(name, data, files):
    """No other names than those of our modules, and no storage that is longer than its record."""
    simple, memo, tokens = {"BINUNICODE", "GLOBAL"}, {}, []
    try:
        parsed = [(opcode.name, value) for opcode, value, _ in pickletools.genops(bytes(data))]
    except ValueError as error:
        raise Refused(f"{name} is not a pickle ({error})") from None
    for opcode, value in parsed:
        if opcode not in OPCODES:
            raise Refused(f"{name} has the opcode {opcode}, which PyTorch never writes")
        if opcode == "GLOBAL" and value not in GLOBALS:
            raise Refused(f"{name} asks for {value[:80]!r}, which retina-convert never does")
        if opcode in ("BINPUT", "LONG_BINPUT"):
            memo[value] = tokens[-1] if tokens and tokens[-1][0] in simple else ("MEMO", None)
        elif opcode in ("BINGET", "LONG_BINGET"):
            tokens.append(memo.get(value, ("MEMO", None)))
        else:
            tokens.append((opcode, value))
        if opcode == "BINPERSID":
            check_storage(name, tokens[-8:-1], files)


def check_storage(name, tokens, files):
    """The tuple ('storage', type, key, device, elements) that a BINPERSID takes."""
    kinds = [opcode for opcode, _ in tokens]
    text = "BINUNICODE"
    if (kinds[:5] + kinds[6:] != ["MARK", text, "GLOBAL", text, text, "TUPLE"]
            or kinds[5] not in INTEGERS or tokens[2][1] not in ELEMENT_BYTES
            or tokens[1][1] != "storage"):
        raise Refused(f"{name} names a storage as PyTorch never does")
    record, count = f"data/{tokens[3][1]}", tokens[5][1]
    got, want = len(files.get(FOLDER + record, b"")), count * ELEMENT_BYTES[tokens[2][1]]
    if got != want:
        raise Refused(f"{record[:80]!r} has a different size than {name} says (got {got} bytes, "
                      f"want {want})")


def check_archive(data):
    files = stored_files(data)
    for name in files:
        if not re.fullmatch(r"archive/data/[0-9]+", name) and (
                not name.startswith(FOLDER) or name[len(FOLDER):] not in RECORDS):
            raise Refused(f"holds the record {name[:80]!r}, which retina-convert never writes")
    for name in (CODE, "data.pkl", "constants.pkl"):
        if FOLDER + name not in files:
            raise Refused(f"holds no {name}")
    if files[FOLDER + "constants.pkl"] != NO_CONSTANTS:
        raise Refused("its constants.pkl is not empty")
    check_code(bytes(files[FOLDER + CODE]).decode("ascii", "replace"))
    for name in PICKLES:
        if FOLDER + name in files:
            check_pickle(name, files[FOLDER + name], files)


# --- After it has loaded, before anything runs ---------------------------------------------------
def check_block(function, block):
    for node in block.nodes():
        uses = f"its function {function} uses {node.kind()}"
        graphs = any(node.kindOf(name) in ("g", "gs") for name in node.attributeNames())
        if node.kind() not in OPERATORS or graphs:
            raise Refused(f"{uses}, which no model of retina-convert does")
        if node.kind() == "prim::CallMethod":
            callee = next(node.inputs()).type()
            if (callee.kind() != "ClassType"
                    or not callee.qualified_name().startswith("__torch__.retina.")):
                raise Refused(f"{uses} on something that is not one of its own modules")
        for inner in node.blocks():
            check_block(function, inner)


def check_tensors(model):
    for name, tensor in model.state_dict(keep_vars=True).items():
        storage = tensor.untyped_storage().nbytes()
        first, sizes, strides = tensor.storage_offset(), tensor.shape, tensor.stride()
        last = first + sum((size - 1) * stride for size, stride in zip(sizes, strides))
        end = (last + 1) * tensor.element_size() if all(sizes) else 0
        if min((0, first, *sizes, *strides)) < 0 or end > storage:
            raise Refused(f"its tensor {name} does not lie within its storage")


def load(path, device, trusted):
    """The module on `device`. Unless `trusted`, raises Refused for what is not retina-convert's."""
    import torch  # not for the checks before it

    if trusted:
        return torch.jit.load(path, device).eval()
    data = pathlib.Path(path).read_bytes()
    try:
        check_archive(data)
        unit = torch._C.CompilationUnit()
        module = torch._C.import_ir_module_from_buffer(unit, data, torch.device("cpu"), {}, False)
        for function in unit.get_functions():
            check_block(function.qualified_name, function.graph)
        model = torch.jit._recursive.wrap_cpp_module(module)
        check_tensors(model)
    except Refused as refused:
        raise Refused(f"{path}: {refused}; hint: convert the checkpoint yourself, or set "
                      "RETINA_TRUST_MODELS=1 if you know who made this file") from None
    return model.to(device).eval()
