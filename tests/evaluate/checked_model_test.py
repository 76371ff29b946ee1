"""jobs/serving/checked_model.py refuses what retina-convert cannot have written, before PyTorch sees the
file; its list of operators is the C++ one. That it takes real models, and what it does after loading,
is shown by tests/oracle/hostile_models_are_refused.py, which has PyTorch."""
import io
import pathlib
import re
import sys
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "jobs/serving"))
sys.dont_write_bytecode = True
import checked_model

CODE = '''class RetinaNet(Module):
  __parameters__ = ["mean", ]
  __buffers__ = []
  training : bool
  mean : Tensor
  suppression : __torch__.retina.suppression
  def forward(self: __torch__.retina.RetinaNet,
    images: Tensor) -> Tuple[List[Tensor], Tensor]:
    if torch.eq(torch.dim(images), 4):
      pass
    return ([images], self.mean)
'''
STORAGE = b"(X\x07\0\0\0storagectorch\nFloatStorage\nq\x02X\x01\0\0\x000X\x03\0\0\0cpuK\x03tQ"
PICKLE = b"\x80\x02c__torch__.retina\nRetinaNet\nq\x01)\x81}(X\x04\0\0\0mean" + STORAGE + b"ub."


def archive(changes=None, **options):
    """A model's archive; `changes`: {record: content}, None leaves it out."""
    files = {"data.pkl": PICKLE, checked_model.CODE: CODE.encode(), "data/0": bytes(12),
             "constants.pkl": checked_model.NO_CONSTANTS, "version": b"10\n"} | (changes or {})
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as zipped:
        for name, content in files.items():
            packed = name.startswith("code/") or name == options.get("pack")
            if content is not None:
                zipped.writestr("archive/" + name, content,
                                zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED)
    return memory.getvalue()


class CheckedModel(unittest.TestCase):
    def assert_refused(self, data, reason):
        with self.assertRaisesRegex(checked_model.Refused, reason):
            checked_model.check_archive(data)

    def test_the_operators_are_those_of_retina_eval(self):
        source = (ROOT / "shared/evaluation/converted/script_operators.cpp").read_text()
        listed = re.findall(r'^ +"((?:aten|prim)::\w+)",$', source, re.MULTILINE)
        self.assertGreater(len(listed), 50)
        self.assertEqual(checked_model.OPERATORS, set(listed))

    def test_the_names_in_a_pickle_are_those_of_retina_eval(self):
        source = (ROOT / "shared/checkpoint/foreign/pickle_globals.cpp").read_text()
        listed = {" ".join(pair) for pair in re.findall(r'PickleGlobal\{"(\S+)", "(\S+)"', source)}
        self.assertLessEqual(checked_model.GLOBALS, listed)
        modules = {name for name in listed if name.startswith("__torch__")}
        self.assertEqual({f"__torch__.retina {name}" for name in checked_model.MODULES}, modules)

    def test_a_model_is_taken(self):
        checked_model.check_archive(archive())

    def test_code_that_runs_inside_of_load_is_refused(self):
        head = "  def forward("
        for code, reason in (
                (CODE.replace(head, "  def __setstate__(self: __torch__.retina.RetinaNet, x: Any) -> "
                              f"NoneType:\n    pass\n{head}"), "def __setstate__"),
                (CODE.replace("images: Tensor)", 'images: Tensor, x: int=ops.aten.save([1], "f"))'),
                 "def forward"),
                (CODE.replace("mean : Tensor", 'mean : Final[int] = torch.len([ops.aten.save(1)])'),
                 "mean : Final"),
                (CODE.replace("  training", '  __forward_hooks__ = ["x", ]\n  training'),
                 "__forward_hooks__"),
                (CODE.replace("(Module)", "(NamedTuple)"), "NamedTuple"),
                (CODE.replace("self.mean)", 'self.mean) """'), '"""'),
                (CODE.replace("self.mean)", "self.mean)  # x"), "'#'"),
                (CODE.replace("self.mean)", "self.mean); x = 1"), "';'"),
                (CODE.replace("self.mean)", "self.mean) \\"), "never writes"),
                (CODE.replace("Tuple[List[Tensor], Tensor]", "Tuple[List[Tensor], Tensor"),
                 "def forward"),
                (CODE.replace("images: Tensor)", "images: (Tensor)"), "def forward"),
                (CODE + "def free(x: Tensor) -> Tensor:\n    return x\n", "def free"),
                (CODE.replace("  def forward", "    def forward"), "line"),
                (CODE[:-1], "cut short")):
            with self.subTest(reason):
                self.assertNotEqual(code, CODE)
                self.assert_refused(archive({checked_model.CODE: code.encode()}), reason)

    def test_a_pickle_of_other_classes_or_longer_storages_is_refused(self):
        for pickle, reason in (
                (PICKLE.replace(b"__torch__.retina\nRetinaNet", b"__torch__.torch.classes.x\nY"),
                 "__torch__.torch.classes.x Y"),
                (PICKLE.replace(b"K\x03tQ", b"K\x04tQ"), "data/0' has a different size"),
                (PICKLE.replace(b"K\x03tQ", b"J\xff\xff\xff\xfftQ"), "data/0' has a different size"),
                (PICKLE.replace(b"FloatStorage", b"DoubleStorage"), "data/0' has a different size"),
                (PICKLE.replace(b"X\x01\0\0\x000", b"X\x01\0\0\x001"), "data/1' has a different size"),
                (PICKLE.replace(b"K\x03tQ", b"K\x03tq\x09h\x09Q"), "as PyTorch never does"),
                (PICKLE.replace(b"K\x03tQ", b"K\x030K\x09tQ"), "opcode POP"),
                (PICKLE[:-1], "not a pickle")):
            with self.subTest(reason):
                self.assertNotEqual(pickle, PICKLE)
                self.assert_refused(archive({"data.pkl": pickle}), reason)

    def test_other_records_and_doubled_ones_are_refused(self):
        self.assert_refused(archive({"code/__torch__/other.py": b""}), "other.py")
        self.assert_refused(archive({"model.json": b"{}"}), "model.json")
        self.assert_refused(archive({"../x": b"{}"}), "holds the record")
        self.assert_refused(archive({"Data.pkl": PICKLE}), "the same name")
        self.assert_refused(archive({"constants.pkl": b"\x80\x02K\x01\x85."}), "constants.pkl")
        self.assert_refused(archive({"data.pkl": None}), "holds no data.pkl")
        self.assert_refused(archive(pack="data/0"), "compressed")

    def test_a_zip_that_others_could_read_otherwise_is_refused(self):
        good = archive()
        self.assert_refused(good[:-1], "cut short")
        self.assert_refused(b"x" + good, "not where it should be")
        self.assert_refused(good + good[-22:], "not where it should be")
        place = good.index(b"PK\1\2")  # the first entry's file begins where the second one's does
        second = good.index(b"PK\1\2", place + 1)
        shared = bytearray(good)
        shared[place + 42:place + 46] = good[second + 42:second + 46]
        shared[place + 20:place + 28] = good[second + 20:second + 28]
        self.assert_refused(bytes(shared), "compressed|overlap")
        for place in range(0, len(good), 7):
            try:  # whatever is damaged: an answer, not an accident
                checked_model.check_archive(good[:place] + b"\xff\xff" + good[place + 2:])
            except checked_model.Refused:
                pass

    def test_code_that_unpacks_to_more_than_it_says_is_refused(self):
        packed = archive({checked_model.CODE: bytes(17 << 20)})
        self.assertLess(len(packed), 1 << 20)
        self.assert_refused(packed, "unpacks to a different size")


if __name__ == "__main__":
    unittest.main()
