"""The declarations for ctypes are those of capstan.h; modules import each other in no circle."""

from __future__ import annotations

import ast
import graphlib
import pathlib
import re
import unittest

from capstan import _collectives, _errors, _library, _optimizers

HEADER = re.sub(r"/\*.*?\*/", "", (pathlib.Path(__file__).parents[2] /
                                   "worker/client_api/capstan.h").read_text(), flags=re.DOTALL)


def _struct_fields(name: str) -> list[str]:
    body = re.search(rf"typedef struct {name} {{(.*?)}} {name};", HEADER, flags=re.DOTALL)[1]
    return re.findall(r"(\w+);", body)


def _enum(name: str) -> dict[str, int]:
    body = re.search(rf"typedef enum {name} {{(.*?)}} {name};", HEADER, flags=re.DOTALL)[1]
    return {key: int(value) for key, value in re.findall(r"(\w+) = (\d+)", body)}


class LibraryTest(unittest.TestCase):
    def test_functions_have_as_many_arguments(self) -> None:
        in_header = {name: 0 if arguments == "void" else arguments.count(",") + 1
                     for name, arguments in re.findall(
                         r"CAPSTAN_EXPORT [^(;]*?(\w+)\(([^)]*)\);", HEADER)}
        self.assertEqual({name: len(arguments)
                          for name, (_, arguments) in _library.FUNCTIONS.items()}, in_header)

    def test_structs_have_the_same_fields(self) -> None:
        for struct, name in [(_library.OptimizerStruct, "capstan_optimizer"),
                             (_library.DenseOptimizerStruct, "capstan_dense_optimizer"),
                             (_library.ConnectOptions, "capstan_connect_options"),
                             (_library.TableStruct, "capstan_table"),
                             (_library.RowOptimizerStruct, "capstan_row_optimizer"),
                             (_library.SparseTableStruct, "capstan_sparse_table"),
                             (_library.LocalStepsStruct, "capstan_local_steps")]:
            self.assertEqual([field[0] for field in struct._fields_], _struct_fields(name))

    def test_numbers_are_the_same(self) -> None:
        statuses = _enum("capstan_status")
        self.assertEqual(set(statuses.values()),
                         {_library.OK, _library.TIMEOUT, _library.LEFT, *_library.ERRORS})
        for name, value in [("OK", _library.OK), ("TIMEOUT", _library.TIMEOUT),
                            ("LEFT", _library.LEFT)]:
            self.assertEqual(statuses[f"CAPSTAN_{name}"], value)
        for value, kind in _library.ERRORS.items():
            words = {"JobFailed": "FAILED"}.get(
                kind.__name__, re.sub(r"(?<!^)([A-Z])", r"_\1", kind.__name__).upper())
            self.assertEqual(statuses[f"CAPSTAN_{words}"], value)
        self.assertEqual(_enum("capstan_dtype"), {"CAPSTAN_FLOAT32": _library.FLOAT32,
                                                  "CAPSTAN_FLOAT16": _library.FLOAT16,
                                                  "CAPSTAN_BFLOAT16": _library.BFLOAT16,
                                                  "CAPSTAN_FLOAT64": _library.FLOAT64,
                                                  "CAPSTAN_INT64": _library.INT64})
        self.assertEqual({f"CAPSTAN_{name.upper()}": number
                          for name, number in _collectives._OPERATIONS.items()},
                         _enum("capstan_operation"))
        kinds = [_optimizers.SGD(1), _optimizers.SGD(1, 0.9), _optimizers.SGD(1, 0.9, True),
                 _optimizers.Adagrad(1), _optimizers.Adam(1), _optimizers.AdamW(1)]
        of_rows = [_optimizers.RowAdagrad(1), _optimizers.FTRL(1)]
        last = [_optimizers.RMSprop(1), _optimizers.Lion(1)]
        self.assertEqual([one._as_struct().basic.type for one in kinds] +
                         [one._as_row_struct().type for one in of_rows] +
                         [one._as_struct().basic.type for one in last],
                         list(_enum("capstan_optimizer_type").values()))

    def test_sparse_tables_have_fewer_settings(self) -> None:
        for optimizer, name in [(_optimizers.SGD(1, maximize=True), "maximize"),
                                (_optimizers.Adam(1, amsgrad=True), "amsgrad"),
                                (_optimizers.Adam(1, weight_decay=0.1), "weight_decay"),
                                (_optimizers.RMSprop(1), "got RMSprop")]:
            with self.assertRaisesRegex(_errors.InvalidArgument, name):
                optimizer._as_row_struct()

    def test_modules_import_each_other_in_no_circle(self) -> None:
        # Also imports for types alone, and those within functions.
        folder = pathlib.Path(_library.__file__).parent
        modules = {path.stem: ast.parse(path.read_text()) for path in folder.glob("*.py")}
        imports: dict[str, set[str]] = {}
        for name, tree in modules.items():
            imported = [f"{node.module}.{alias.name}" for node in ast.walk(tree)
                        if isinstance(node, ast.ImportFrom) for alias in node.names]
            imported += [alias.name for node in ast.walk(tree)
                         if isinstance(node, ast.Import) for alias in node.names]
            self.assertFalse([one for one in imported if one.startswith("None.")],
                             "imports by a leading dot are not looked at here")
            imports[name] = {part for one in imported if one.startswith("capstan.")
                             for part in one.split(".")[1:]} & modules.keys()
        self.assertIn("_errors", imports["_job"])
        graphlib.TopologicalSorter(imports).prepare()  # raises CycleError


if __name__ == "__main__":
    unittest.main()
