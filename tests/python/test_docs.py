"""The examples in docstrings and in python/README.md run and print what they say."""

import doctest
import importlib
import pkgutil
import re
import textwrap
import types

from support import ROOT, InFolder, tar

import tarpipe

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Docs(InFolder):
    def setUp(self):
        super().setUp()
        self.write("train-000.tar", tar([("a.cls", b"1"), ("a.jpg", b"123")]))
        self.write("train-001.tar", tar([("b.cls", b"2"), ("b.jpg", b"12345")]))
        self.write("urls.txt", "http://127.0.0.1/a.jpg\n")
        self.write("videos.txt", "http://127.0.0.1/a.mp4\n")

    def check(self, results):
        self.assertEqual(results.failed, 0)
        return results.attempted

    def test_docstrings(self):
        names = [module.name for module in pkgutil.walk_packages(tarpipe.__path__, "tarpipe.")]
        self.assertIn("tarpipe.dropin.tables", names)
        modules = [tarpipe, *map(importlib.import_module, names)]
        self.assertGreater(sum(self.check(doctest.testmod(module, optionflags=OPTIONS)) for module in modules), 6)

    def test_readme(self):
        self.assertGreater(self.check(doctest.testfile(str(ROOT / "python" / "README.md"), False, optionflags=OPTIONS)), 6)

    def test_the_torch_dataset_in_four_lines(self):
        """With a stand-in for torch, which has what the example uses of it."""
        worker = types.SimpleNamespace(id=1, num_workers=2)
        data = types.SimpleNamespace(IterableDataset=object, get_worker_info=lambda: worker)
        torch = types.SimpleNamespace(utils=types.SimpleNamespace(data=data))
        readme = (ROOT / "python" / "README.md").read_text()
        for text in (readme, tarpipe.samples.__doc__):
            lines = re.search(r"^( *)class Shards.*\n(?:\1 +.*\n){3}", text, re.MULTILINE)[0]
            names = {"torch": torch, "tarpipe": tarpipe}
            exec(textwrap.dedent(lines).replace("{000..147}", "{000..001}"), names)
            self.assertEqual([sample["__key__"] for sample in names["Shards"]()], ["b"])
            data.get_worker_info = lambda: None
            self.assertEqual([sample["__key__"] for sample in names["Shards"]()], ["a", "b"])
            data.get_worker_info = lambda: worker
