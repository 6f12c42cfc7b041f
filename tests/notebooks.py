"""Executes the notebooks of examples/ in a copy, and compares what they print with what they have stored.

    notebooks.py BUILD              ends with "N passed, M failed"
    notebooks.py BUILD --write      stores what they print, and nothing about this machine

Times are left out, and figures are only counted.  In a cell with the tag "varies", numbers may differ by VARIES."""
import os
import re
import shutil
import sys
import tempfile

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
try:
    import ipykernel, matplotlib, nbformat, torch  # noqa: E401, F401
    from nbclient import NotebookClient
except ImportError as error:
    print("no notebook was executed: %s (python3-nbclient, python3-ipykernel, python3-matplotlib, python3-torch)" % error)
    sys.exit(0)

# Points of accuracy.  Sums of PyTorch depend on the machine, and other roundings act like another seed: three seeds differ by
# up to three points, and 500 test images have a standard error of 1.6.
VARIES = 5.0
BYTES = 150000          # of a notebook


def clean(notebook):
    """The notebook with what --write stores: sources, tags, printed text and figures, but no warnings."""
    for cell in notebook.cells:
        cell.metadata = {"tags": cell.metadata["tags"]} if "tags" in cell.metadata else {}
        outputs = []
        for output in cell.get("outputs", []):
            if output.get("name") == "stderr":
                continue
            if output.output_type == "stream" and outputs and outputs[-1].get("name") == output.name:
                outputs[-1].text += output.text
            else:
                outputs.append({**output, "metadata": {}} if "metadata" in output else output)
        if "outputs" in cell:
            cell.outputs = outputs
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
                         "language_info": {"name": "python"}}
    return nbformat.from_dict(notebook)


def printed(cell):
    return "".join(re.sub(r"\d+\.\d+ s\b", "TIME", o.text) for o in cell.outputs if o.get("name") == "stdout")


def figures(cell):
    return sum("image/png" in o.get("data", {}) for o in cell.outputs)


def same(old, new, varies):
    if not varies:
        return old == new
    old, new = re.split(r"(\d+\.\d+)", old), re.split(r"(\d+\.\d+)", new)
    return old[::2] == new[::2] and all(abs(float(a) - float(b)) <= VARIES for a, b in zip(old[1::2], new[1::2]))


def faults(name, stored, executed, size):
    if size > BYTES:
        yield "%s has %d bytes, more than %d" % (name, size, BYTES)
    if clean(nbformat.from_dict(stored)) != stored:
        yield "%s has metadata or warnings that --write leaves out" % name
    for old, new in zip(stored.cells, executed.cells):
        if old.cell_type == "markdown":
            for link in re.findall(r"\]\(([^):#]+)", old.source):
                if not os.path.exists(os.path.join(root, "examples", "notebooks", link)):
                    yield "%s: %s does not exist" % (name, link)
        elif not same(printed(old), printed(new), "varies" in old.metadata.get("tags", [])):
            yield "%s, %s: stored\n%sprinted\n%s" % (name, old.id, printed(old), printed(new))
        elif figures(old) != figures(new):
            yield "%s, %s: %d figures are stored, %d drawn" % (name, old.id, figures(old), figures(new))


def main(build, write):
    passed = failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        at = os.path.join(scratch, "examples", "notebooks")
        shutil.copytree(os.path.join(root, "examples", "notebooks"), at, ignore=shutil.ignore_patterns("runs", ".*"))
        os.symlink(os.path.join(root, "datasets"), os.path.join(scratch, "datasets"))
        os.environ.pop("MPLBACKEND", None)                      # which would draw nothing into the notebook
        os.environ.update(QGRAD_LIB=os.path.abspath(build), PYTHONPATH=os.path.join(root, "python"), PYTHONDONTWRITEBYTECODE="1",
                          IPYTHONDIR=scratch, JUPYTER_RUNTIME_DIR=scratch, MPLCONFIGDIR=scratch, PYDEVD_DISABLE_FILE_VALIDATION="1")
        for name in sorted(n for n in os.listdir(at) if n.endswith(".ipynb")):
            path = os.path.join(root, "examples", "notebooks", name)
            stored, executed = (nbformat.read(path, 4) for _ in range(2))
            try:
                NotebookClient(executed, timeout=600, kernel_name="python3", record_timing=False,
                               resources={"metadata": {"path": at}}).execute()
                found = [] if write else list(faults(name, stored, executed, os.path.getsize(path)))
            except Exception as error:                          # of a cell, or of a kernel that does not start
                found = ["%s: %s" % (name, error)]
            print("\n".join(["error: " + f for f in found]) or "ok: " + name, flush=True)
            passed, failed = passed + (not found), failed + bool(found)
            if write and not found:
                with open(path, "w", encoding="utf-8") as f:
                    f.write(nbformat.writes(clean(executed)) + "\n")
    print("%d passed, %d failed" % (passed, failed))
    return failed > 0


sys.exit(main(sys.argv[1], "--write" in sys.argv))
