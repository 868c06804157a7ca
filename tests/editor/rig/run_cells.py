"""Runs the cells of a notebook as IPython does, with what they display in their outputs: a notebook as a person's kernel leaves it.

    python run_cells.py train.ipynb
"""

import ast
import contextlib
import io
import json
import linecache
import sys
import types
from pathlib import Path


class Compiler:
    def cache(self, transformed, number=0, raw_code=None):
        """The kernel's name for a cell, of a file that is not there."""
        name = f"/tmp/ipykernel_0/{number}.py"
        linecache.cache[name] = (len(transformed), None, transformed.splitlines(keepends=True), name)
        return name

    def ast_parse(self, source, filename="<unknown>", symbol="exec"):
        return ast.parse(source, filename, symbol)


class Shell:
    def __init__(self):
        self.compile, self.execution_count, self.magics, self.outputs = Compiler(), 0, {}, []
        self.names = {"__name__": "__main__"}

    def register_magic_function(self, function, kind, name):
        self.magics[name] = function

    def display(self, shown):
        data = shown._repr_mimebundle_()
        self.outputs.append({"output_type": "display_data", "metadata": {}, "data": data})

    def run_cell(self, cell):
        name = self.compile.cache(cell, self.execution_count)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(self.compile.ast_parse(cell, name), name, "exec"), self.names)
        if printed.getvalue():
            self.outputs.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue()})

    def run(self, cell):
        self.execution_count += 1
        self.outputs = []
        first, _, rest = cell.partition("\n")
        if first.startswith("%%"):
            words = first[2:].split(maxsplit=1)
            # IPython ends a cell with the end of a line.
            self.magics[words[0]]("".join(words[1:]), rest if rest.endswith("\n") else f"{rest}\n")
        else:
            self.run_cell("".join("\n" if row.startswith("%") else row for row in cell.splitlines(keepends=True)))


def main(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    shell = Shell()
    display = types.ModuleType("IPython.display")
    display.display = shell.display
    sys.modules.update({"IPython": types.ModuleType("IPython"), "IPython.display": display})

    import dynascope

    dynascope.load_ipython_extension(shell)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            shell.run("".join(cell["source"]))
            cell["execution_count"], cell["outputs"] = shell.execution_count, shell.outputs
    path.write_text(json.dumps(notebook), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
