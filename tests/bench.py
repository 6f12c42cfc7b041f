#!/usr/bin/python3
"""make bench: qgrad and PyTorch in turn, on the same nets, threads and machine; the page results/speed.md.

    bench.py [--rows REGEX] [--sections LIST] [--rounds N] [--seconds S] [--threads N]
             [--peer PYTHON]... [--no-peer] [--beside QGRAD] [--busy] [--out FILE]

Every figure of the table is a median over rounds, each of which runs qgrad and every mode of every
PyTorch one after the other: as it comes, and with channels_last, torch.compile and both, which also
get a C library that keeps its memory.  A mode is a process of its own, which builds and compiles the
net once and prints the median of its steps whenever it is asked.  docs/performance.md tells the rest.

Needs build/qgrad, and for each peer a Python with PyTorch and NumPy; without one the report has qgrad
alone.
"""
import argparse
import json
import os
import platform
import re
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TRAIN = "tests/peer/torch_train.py"
# Prints a version, and whether it can compile.
VERSION = "import numpy, torch; print(torch.__version__.split('+')[0], int(hasattr(torch, 'compile')))"
TUNED = {"MALLOC_MMAP_THRESHOLD_": "4000000000", "MALLOC_TRIM_THRESHOLD_": "16000000000",
         "MALLOC_TOP_PAD_": "268435456"}
# What would change a library's choice of kernels, threads or memory.
FOREIGN = re.compile(r"OPENBLAS_|OMP_|KMP_|GOMP_|MKL_|MALLOC_|GLIBC_TUNABLES$|LD_PRELOAD$|QGRAD_CPU$|"
                     r"QGRAD_PRODUCTS$|ONEDNN_|DNNL_")
SGD = "--optimizer sgd --lr 0.01 --momentum 0.9 --weight-decay 1e-4"
BUSY = 0.05             # the share of the machine that others may take
TURNS = 3               # of LeNet-5 in a round, each as much shorter: short steps notice short disturbances
SECTIONS = ("table", "quantized", "forward", "batch", "threads", "cost", "memory", "program", "beside")

# What a mode adds to the command and to the environment of PyTorch.
MODES = {"default": ([], {}), "channels_last": (["--channels-last"], TUNED), "compile": (["--compile"], TUNED),
         "compile, channels_last": (["--compile", "--channels-last"], TUNED)}

W1A2 = "--weight dorefa:bits=1 --input dorefa:bits=2 --first-last float"
IN_INTEGERS = W1A2 + " --gradient dorefa:bits=6"

# Name; net; batch; quantizers of qgrad and of the peer; floor and goal against (default, best) or (default, best,
# channels_last); memory floor and goal.  What trains in integers has PyTorch's float net beside it.
ROWS = [
    ("LeNet-5 float", "lenet5", 64, "", "float", (2.0, 1.6), (2.4, 1.9), (4, 5)),
    ("LeNet-5 TWN", "lenet5", 64, "--weight twn", "twn", (2.3, 1.8), (2.7, 2.1), (4, 5)),
    ("LeNet-5 DoReFa W1A2", "lenet5", 64, W1A2, "dorefa", (2.5, 2.0), (3.0, 2.5), (4, 5)),
    ("LeNet-5 int8", "lenet5", 64, "--weight fake_quant:range=learned --input fake_quant:range=learned", "int8",
     (3.0, 2.5), (4.0, 3.3), (4, 5)),
    ("LeNet-5 W1A2G6 in integers", "lenet5", 64, IN_INTEGERS, "float", (None, 1.8), (None, 1.8), (4, 5)),
    ("ResNet-20 float", "resnet20", 128, "", "float", (1.6, 1.2), (1.9, 1.4), (2.5, 3)),
    ("ResNet-20 TTQ", "resnet20", 128, "--weight ttq --first-last float", "ttq",
     (1.6, 1.2), (1.9, 1.4), (2.5, 3)),
    ("ResNet-20 DoReFa W1A2", "resnet20", 128, W1A2, "dorefa", (None, 1.7), (None, 2.1), (2.5, 3)),
    ("ResNet-20 W1A2G6 in integers", "resnet20", 128, IN_INTEGERS, "float", (None, 2.0), (None, 2.0), (2.5, 3)),
    ("ResNet-18 float", "resnet18", 64, "", "float", (1.3, None, 1.3), (1.6, None, 1.6), (2, 2)),
    ("MobileNet float", "mobilenet", 128, "", "float", (1.5, None, 1.5), (2.5, None, 2.5), (2, 2)),
    ("VGG-7 float", "vgg7", 64, "", "float", (1.3, 1.0), (1.5, 1.15), (2, 2.5)),
    ("VGG-7 TWN", "vgg7", 64, "--weight twn", "twn", (1.3, 1.0), (1.5, 1.15), (2, 2.5)),
    ("VGG-7 W1A2G6 in integers", "vgg7", 64, IN_INTEGERS, "float", (None, 2.0), (None, 2.0), (2, 2.5)),
]
# Net, batch, quantizers for the sections about qgrad alone.
NETS = [("LeNet-5 TWN", "lenet5", 64, "--weight twn"),
        ("ResNet-20 float", "resnet20", 128, ""),
        ("VGG-7 TWN", "vgg7", 64, "--weight twn")]


# --- running --------------------------------------------------------------------------------------

def machine_busy():
    """Seconds that all cores together were not idle, or None where the kernel does not say."""
    try:
        with open("/proc/stat") as f:
            t = [int(x) for x in f.readline().split()[1:]]
    except OSError:
        return None
    return (sum(t[:8]) - t[3] - t[4]) / os.sysconf("SC_CLK_TCK")


def taken_by_others(seconds=2.0):
    """Share of the machine that other processes take; the load average would lag behind by a minute."""
    began = machine_busy()
    if began is None:
        return min(1, os.getloadavg()[0] / os.cpu_count())
    time.sleep(seconds)
    return (machine_busy() - began) / seconds / os.cpu_count()


def children_busy():
    r = resource.getrusage(resource.RUSAGE_CHILDREN)
    return r.ru_utime + r.ru_stime


def own_env():
    return {k: v for k, v in os.environ.items() if not FOREIGN.match(k)}


class Failed(Exception):
    """A measurement that could not be made; says why."""


class Peer:
    """A Python with a PyTorch."""

    def __init__(self, python, version, compiles):
        self.python, self.name = python, "PyTorch " + version
        self.modes = [mode for mode in MODES if compiles or "compile" not in mode]


class Service:
    """One mode of a PyTorch on one net: a process that measures whenever it gets a number of seconds."""

    def __init__(self, command, env):
        self.command = command
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, cwd=TOP, env=env, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors)
        self.failed = None
        try:
            self.answer()
        except Failed as e:
            self.failed = str(e)

    def answer(self):
        line = self.process.stdout.readline()
        if line:
            try:
                return json.loads(line)
            except ValueError:
                raise Failed(f"printed {line[:80]!r}, which is no measurement") from None
        self.process.wait()
        self.errors.seek(0)
        text = self.errors.read().strip().splitlines()
        raise Failed((text or [f"exit status {self.process.returncode}"])[-1])

    def measure(self, seconds):
        if self.failed:
            raise Failed(self.failed)
        try:
            self.process.stdin.write(seconds + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass                        # answer() says why it ended
        return self.answer()

    def close(self):
        if self.process.poll() is None:
            self.process.communicate()


class Bench:
    def __init__(self, o):
        self.o = o
        self.peers = []
        self.raw = []           # every result, as printed
        self.out = []           # lines of the report
        self.disturbed = 0      # the largest share of the machine that went elsewhere during a run
        self.reached = 0        # targets that were reached,
        self.short = []         # those that were not, and what could not be measured
        self.env = own_env()
        self.mnist = os.path.isdir(o.data_dir)

    def say(self, text=""):
        self.out.append(text)

    def watched(self, command, env, call):
        """call() gives a result and the seconds of CPU it took; the rest of the machine is watched."""
        began, machine = time.monotonic(), machine_busy()
        result, own = call()
        if machine is not None:
            foreign = machine_busy() - machine - own
            self.disturbed = max(self.disturbed, foreign / (time.monotonic() - began) / os.cpu_count())
        self.raw.append({"command": shlex.join(command), "env": env, "result": result})
        speed = next((key for key in ("images_per_second", "gflops") if key in result), None)
        print(f"  {result[speed]:10.1f} {speed}  " if speed else "  ", shlex.join(command), file=sys.stderr, flush=True)
        return result

    def run(self, command):
        """The JSON object that a command prints."""
        def call():
            own = children_busy()
            p = subprocess.run(command, cwd=TOP, env=self.env, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
            if p.returncode:
                raise Failed((p.stderr.strip().splitlines() or [f"exit status {p.returncode}"])[-1])
            return json.loads(p.stdout), children_busy() - own
        return self.watched(command, {}, call)

    def qgrad(self, kind, net, batch, quant, *more, threads=None, program=None):
        if net != "lenet5":
            data = "--image 32x32x3"
        else:
            data = f"--data mnist --data-dir {shlex.quote(self.o.data_dir)}" if self.mnist else "--data synthetic"
        return self.run([program or self.o.qgrad, "bench", kind, "--model", net, "--batch", str(batch), *shlex.split(data),
                         *shlex.split(quant), *(SGD.split() if kind != "eval" else []), "--threads", str(threads or self.o.threads),
                         "--seconds", self.seconds(net), "--json", *more])

    def turns(self, net):
        return TURNS if net == "lenet5" and self.o.seconds >= 1 else 1

    def seconds(self, net):
        return f"{self.o.seconds / self.turns(net):g}"

    def services(self, net, batch, quant, *more):
        """{(peer, mode): a process that has taken its first steps} of every peer, one started after the other."""
        services = {}
        for peer in self.peers:
            for mode in peer.modes:
                words, env = MODES[mode]
                command = [peer.python, TRAIN, "--net", net, "--quant", quant, "--batch", str(batch), "--threads",
                           str(self.o.threads), "--data-dir", self.o.data_dir, "--serve", *words, *more]
                print("  building", shlex.join(command), file=sys.stderr, flush=True)
                services[peer, mode] = Service(command, {**self.env, **env})
        return services

    def ask(self, service, mode, net):
        def call():
            result = service.measure(self.seconds(net))
            return result, result["cpu_seconds"]
        return self.watched(service.command, MODES[mode][1], call)

    def rounds(self, net, runs):
        """Run each of `runs` in turn: {name: results}, or a Failed in their place."""
        results = {name: [] for name in runs}
        for _ in range(self.o.rounds * self.turns(net)):
            for name, call in runs.items():
                if not isinstance(results[name], Failed):
                    try:
                        results[name].append(call())
                    except Failed as e:
                        results[name] = e
        return results

    def beside_peers(self, net, batch, quant, ours, *more, twice=False):
        """The results of ours, perhaps of a second run, and {(peer, mode): results}, all in turns."""
        services = self.services(net, batch, quant, *more)
        runs = {"qgrad": ours, **({"again": ours} if twice else {})}
        for (peer, mode), service in services.items():
            runs[peer, mode] = lambda service=service, mode=mode: self.ask(service, mode, net)
        try:
            got = self.rounds(net, runs)
        finally:
            for service in services.values():
                service.close()
        return got.pop("qgrad"), got.pop("again", None), got


def failure(*results):
    """Why one of these did not come to its end, or None."""
    return next((str(r).replace("|", "/") for r in results if isinstance(r, Failed)), None)


def rate(results):
    return statistics.median(r["images_per_second"] for r in results)


def meanwhile(results):
    """Share of the multiply-adds that the machine gave right behind each step."""
    return f"{100 * statistics.median(r['gflops'] / r['gflops_meanwhile'] for r in results):.0f} %"


def memory(results):
    return max(r["peak_rss_bytes"] for r in results) / 2**20


def best(peer, theirs):
    """The fastest mode of a peer, or None if none could be measured."""
    rates = {mode: rate(r) for (p, mode), r in theirs.items() if p is peer and not failure(r)}
    return max(rates, key=rates.get) if rates else None


# --- the sections ---------------------------------------------------------------------------------

def verdict(b, name, value, floor, goal):
    """The bar that a value reaches; what it does not reach goes into the summary."""
    if floor is None:
        return ""
    b.reached += value >= goal
    if value < goal:
        b.short.append(f"{name}: {value:.2f}, " + (f"floor {floor:g}" if value < floor else f"goal {goal:g}"))
    return "goal" if value >= goal else "floor" if value >= floor else "**missed**"


def unmeasured(b, name, why):
    """The cell of what could not be measured, which the summary names too."""
    b.short.append(f"{name}: not measured")
    return f"not measured: {why}"


def not_measured(b, name, why, cells):
    b.say(f"| {name} | {unmeasured(b, name, why)} |" + " |" * (cells - 2))


def targets(b):
    b.say("*Floors* are required, *goals* are the aim.  Speeds are multiples of PyTorch's in its default mode / in its "
          "fastest mode (/ with channels_last); *memory* is the factor by which qgrad uses less than the smallest mode.\n\n"
          "| training | floor | goal | memory, floor | goal |\n|---|---|---|---|---|")
    for name, _, batch, _, _, floor, goal, space in ROWS:
        if re.search(b.o.rows, name):
            x = [" / ".join("-" if v is None else f"{v:g}" for v in bar) for bar in (floor, goal)]
            b.say(f"| {name}, {batch} | {x[0]} | {x[1]} | {space[0]:g} | {space[1]:g} |")


def table(b):
    head = ["net, batch", "qgrad images/s"]
    for peer in b.peers:
        head += [peer.name, "its mode", "x", "bar"]
    head += ["itself", "limit images/s", "share of it", "meanwhile", "qgrad MiB"]
    head += ["PyTorch MiB", "x less", "bar"] if b.peers else []
    b.say("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    modes = []
    for name, net, batch, quant, kind, floor, goal, space in ROWS:
        if not re.search(b.o.rows, name):
            continue
        ours, again, theirs = b.beside_peers(net, batch, kind, lambda: b.qgrad("train", net, batch, quant), twice=True)
        if failure(ours):
            not_measured(b, f"{name}, {batch}", failure(ours), len(head))
            continue
        cells = [f"{name}, {batch}", f"{rate(ours):.0f}"]
        for peer in b.peers:
            mode = best(peer, theirs)
            if not mode:
                cells += ["", "none was measured", "", ""]
                continue
            x = rate(ours) / rate(theirs[peer, mode])
            cells += [f"{rate(theirs[peer, mode]):.0f}", mode, f"{x:.2f}",
                      verdict(b, f"{name} against {peer.name}", x, floor[1], goal[1])]
        limit = 1e9 * b.peak["gflops"] / ours[0]["flops_per_image"]
        cells += ["" if failure(again) else f"{rate(again) / rate(ours):.2f}", f"{limit:.0f}", f"{100 * rate(ours) / limit:.0f} %", meanwhile(ours), f"{memory(ours):.0f}"]
        sizes = [memory(r) for r in theirs.values() if not failure(r)]
        if sizes:
            x = min(sizes) / memory(ours)
            cells += [f"{min(sizes):.0f}", f"{x:.1f}", verdict(b, f"{name}, memory", x, *space)]
        b.say("| " + " | ".join(cells + [""] * (len(head) - len(cells))) + " |")
        modes += mode_lines(b, name, batch, ours, theirs, floor, goal)
    b.say("\n*itself*: a second run of qgrad in the same turns, so how far noise reaches.  *limit*: multiply-adds of the "
          f"step's products at the measured peak, {b.peak['gflops']:.0f} GFLOP/s, which Winograd's algorithm may exceed.  "
          "*meanwhile*: the same share of what bursts of multiply-adds between the steps reached.  PyTorch: its fastest "
          "mode; its MiB: the smallest of all modes.")
    if modes:
        b.say("\n### Every mode of PyTorch\n\n| net, batch | version | mode | images/s | qgrad x | bar | MiB |\n" + "|---" * 7 + "|")
        b.out += modes


def mode_lines(b, name, batch, ours, theirs, floor, goal):
    lines = []
    for (peer, mode), results in theirs.items():
        line = f"| {name}, {batch} | {peer.name} | {mode} | "
        if failure(results):
            lines.append(line + unmeasured(b, f"{name} in {peer.name}, {mode}", failure(results)) + " | | | |")
            continue
        x = rate(ours) / rate(results)
        at = {"default": 0, "channels_last": 2}.get(mode, len(floor))
        bar = verdict(b, f"{name} against {peer.name}, {mode}", x, floor[at], goal[at]) if at < len(floor) else ""
        lines.append(line + f"{rate(results):.0f} | {x:.2f} | {bar} | {memory(results):.0f} |")
    return lines


def quantized(b):
    """A quantized step against the float step of the same net, in turn."""
    b.say("| net, batch | float ms | quantized ms | quantized / float, at most 1.05 |\n|---|---|---|---|")
    for name, net, batch, quant, *_ in ROWS:
        if quant and re.search(b.o.rows, name):
            got = b.rounds(net, {"float": lambda: b.qgrad("train", net, batch, ""),
                                 "quantized": lambda: b.qgrad("train", net, batch, quant)})
            if failure(*got.values()):
                not_measured(b, f"{name}, {batch}", failure(*got.values()), 4)
                continue
            plain, other = (1e3 * batch / rate(got[k]) for k in ("float", "quantized"))
            verdict(b, f"{name}, the speed of its step divided by the float step's", plain / other, 1 / 1.05, 1 / 1.05)
            b.say(f"| {name}, {batch} | {plain:.2f} | {other:.2f} | {other / plain:.3f} |")


def nets(b, head, call):
    b.say(head + "\n" + "|" + "---|" * (head.count("|") - 1))
    for name, net, batch, quant in NETS:
        if re.search(b.o.rows, name):
            b.say("| " + " | ".join(call(name, net, batch, quant)) + " |")


def forward(b):
    def line(name, net, batch, quant):
        kind = next(row[4] for row in ROWS if row[0] == name)
        ours, _, theirs = b.beside_peers(net, batch, kind, lambda: b.qgrad("eval", net, batch, quant), "--forward")
        if failure(ours):
            return [name, unmeasured(b, f"{name}, evaluation", failure(ours))] + [""] * (2 * len(b.peers) + 3)
        reached = rate(ours) * ours[0]["flops_per_image"] / 1e9
        verdict(b, f"{name}, evaluation, of the peak", reached / b.peak["gflops"], 0.7, 0.7)
        cells = [f"{name}, {batch}", f"{rate(ours):.0f}"]
        for peer in b.peers:
            mode = best(peer, theirs)
            cells += [f"{rate(theirs[peer, mode]):.0f}", mode] if mode else ["", "none was measured"]
        return cells + [f"{reached:.0f}", f"{100 * reached / b.peak['gflops']:.0f} %", meanwhile(ours)]
    peers = "".join(f" {peer.name} | its mode |" for peer in b.peers)
    nets(b, f"| net, batch | qgrad images/s |{peers} qgrad GFLOP/s | share of peak, at least 70 % | meanwhile |", line)


def batch_sweep(b):
    sweep = (1, 8, 32, 128, 512)

    def line(name, net, _, quant):
        got = b.rounds(net, {n: lambda n=n: b.qgrad("train", net, n, quant) for n in sweep})
        if failure(*got.values()):
            return [name, unmeasured(b, f"{name}, batch size", failure(*got.values()))] + [""] * (len(sweep) - 1)
        return [name] + [f"{rate(got[n]):.0f}" for n in sweep]
    nets(b, "| images/s at batch | " + " | ".join(map(str, sweep)) + " |", line)


def scaling(b):
    def line(name, net, batch, quant):
        got = b.rounds(net, {n: lambda n=n: b.qgrad("train", net, batch, quant, threads=n) for n in (1, 2)})
        if failure(*got.values()):
            return [name, unmeasured(b, f"{name}, threads", failure(*got.values())), "", ""]
        verdict(b, f"{name}, two threads", rate(got[2]) / rate(got[1]), 1.85, 1.85)
        return [f"{name}, {batch}", f"{rate(got[1]):.0f}", f"{rate(got[2]):.0f}", f"{rate(got[2]) / rate(got[1]):.2f}"]
    nets(b, "| net, batch | 1 thread | 2 threads | scaling, at least 1.85 |", line)


def beside(b):
    """Every row with another qgrad in turn."""
    flags = re.findall(r"-f[^ ]*stack-protector[^ ]*|-D_FORTIFY[^ ]*", text_of([b.o.beside, "--version"], ""))
    b.say(f"Another program in turn, of {measured(b.o.beside).split(',')[0]} and {'with ' + ' '.join(flags) if flags else 'not hardened'}: "
          "its images/s divided by those of this one.\n\n| net, batch | ratio |\n|---|---|")
    for name, net, batch, quant, *_ in ROWS:
        if re.search(b.o.rows, name):
            got = b.rounds(net, {k: lambda p=p: b.qgrad("train", net, batch, quant, program=p)
                                 for k, p in (("this", b.o.qgrad), ("other", b.o.beside))})
            why = failure(*got.values())
            ratio = unmeasured(b, f"{name} beside another build", why) if why else f"{rate(got['other']) / rate(got['this']):.3f}"
            b.say(f"| {name}, {batch} | {ratio} |")


def bandwidth(b):
    b.say("Forward, 3x3, 88 images, bound by the memory.\n\n| image | GB/s | share of the triad, at least 70 % |\n|---|---|---|")
    for _ in range(b.o.rounds):
        try:
            r = b.run([b.o.qgrad, "bench", "memory", "--threads", str(b.o.threads), "--seconds", f"{b.o.seconds:g}", "--json"])
        except Failed as e:
            not_measured(b, "all", e, 3)
            return
        for image, speed in zip(("112x112x64", "56x56x256"), r["depthwise_gbytes_per_second"]):
            share = speed / r["triad_gbytes_per_second"]
            verdict(b, f"depthwise convolution of {image}, of the triad", share, 0.7, 0.7)
            b.say(f"| {image} | {speed:.1f} | {100 * share:.0f} % |")


def program(b):
    """The size of the program, and the time until it has started."""
    times = []
    for _ in range(20):
        began = time.monotonic()
        subprocess.run([b.o.qgrad, "--version"], cwd=TOP, env=b.env, stdout=subprocess.DEVNULL)
        times.append(time.monotonic() - began)
    b.say(f"`qgrad --version` takes {1e3 * statistics.median(times):.1f} ms (median of {len(times)}).  The program has "
          f"{os.path.getsize(os.path.join(TOP, b.o.qgrad)):,} bytes, symbols for debuggers included.")


# --- cost against work ----------------------------------------------------------------------------

def plot(rows, path):
    """Milliseconds against work, both logarithmic, as SVG: one line for each thing that grows."""
    from math import ceil, floor, log10
    xs, ys = ([log10(r[k]) for r in rows] for k in ("work", "ms"))
    x0, x1, y0, y1 = floor(min(xs)), ceil(max(xs)), floor(min(ys)), ceil(max(ys))
    unit = 110
    width, height = unit * (x1 - x0), unit * (y1 - y0)

    def px(x):
        return 60 + unit * (x - x0)

    def py(y):
        return 20 + height - unit * (y - y0)
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 160}" height="{height + 70}" '
           'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>']
    for x in range(x0, x1 + 1):
        svg.append(f'<path d="M{px(x)} {py(y0)}V{py(y1)}" stroke="#ddd"/>'
                   f'<text x="{px(x)}" y="{py(y0) + 16}" text-anchor="middle">{10.0 ** x:g}</text>')
    for y in range(y0, y1 + 1):
        svg.append(f'<path d="M{px(x0)} {py(y)}H{px(x1)}" stroke="#ddd"/>'
                   f'<text x="{px(x0) - 6}" y="{py(y) + 4}" text-anchor="end">{10.0 ** y:g}</text>')
    svg.append(f'<text x="{px(x0) + width / 2}" y="{py(y0) + 36}" text-anchor="middle">MFLOP per image</text>'
               f'<text x="{px(x0)}" y="14">ms per image, training step</text>')
    for i, grows in enumerate(dict.fromkeys(r["grows"] for r in rows)):
        colour = ("#1b6ca8", "#c8553d", "#3a7d44")[i % 3]
        points = [(px(log10(r["work"])), py(log10(r["ms"]))) for r in rows if r["grows"] == grows]
        svg.append(f'<polyline fill="none" stroke="{colour}" points="'
                   + " ".join(f"{x:.1f},{y:.1f}" for x, y in points) + '"/>')
        svg += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        svg.append(f'<text x="{px(x1) + 10}" y="{py(y1) + 16 + 18 * i}" fill="{colour}">{grows}</text>')
    with open(path, "w") as f:
        f.write("\n".join(svg) + "\n</svg>\n")


def cost(b):
    """Chains of 3x3 convolutions, batch norm and relu, as text; width, depth and image side vary one at a time."""
    sizes = ([("width", n, 4, 16) for n in (16, 32, 64, 128, 256)] + [("depth", 64, n, 16) for n in (1, 2, 4, 8, 16)]
             + [("side", 64, 4, n) for n in (8, 16, 32, 64)])
    batch, rows = 32, []
    b.say("| grows | width | depth | side | MFLOP/image | ms/image | GFLOP/s |\n" + "|---" * 7 + "|")
    for grows, width, depth, side in sizes:
        net = "-".join([f"{width}C3-BN-R"] * depth + ["GAP-10"])
        try:
            r = b.run([b.o.qgrad, "bench", "train", "--model", net, "--image", f"{side}x{side}x{width}", "--batch", str(batch),
                       *"--optimizer sgd --lr 0.01 --momentum 0.9".split(), "--threads", str(b.o.threads),
                       "--seconds", f"{b.o.seconds / 4:g}", "--json"])
        except Failed as e:
            b.say("\n" + unmeasured(b, f"cost of {net} on images of {side}x{side}", e))
            return
        rows.append({"grows": grows, "work": 1e-6 * r["flops_per_image"], "ms": r["ms_per_step"] / batch})
        b.say(f"| {grows} | {width} | {depth} | {side} | {rows[-1]['work']:.3f} | {rows[-1]['ms']:.5f} | {r['gflops']:.1f} |")
    plot(rows, os.path.join(os.path.dirname(b.o.out), "cost.svg"))
    b.say("\nA line of slope 1 is cost in proportion to work ([figure](cost.svg)).")


# --- the report -----------------------------------------------------------------------------------

TITLES = {
    "table": ("Training", table), "quantized": ("Quantized steps against float steps", quantized),
    "forward": ("Evaluation, forward only", forward), "batch": ("Batch size", batch_sweep),
    "threads": ("Threads", scaling), "cost": ("Cost against width, depth and area", cost),
    "memory": ("Depthwise convolutions", bandwidth), "program": ("The program", program),
    "beside": ("Another build", beside),
}


def text_of(command, fallback="unknown"):
    try:
        return subprocess.run(command, cwd=TOP, env=own_env(), text=True, capture_output=True, check=True).stdout.strip() or fallback
    except (OSError, subprocess.CalledProcessError):
        return fallback


def cpu_model():
    try:
        with open("/proc/cpuinfo") as f:
            info = f.read()
    except OSError:
        return platform.processor()
    field = {k: m.group(1) for k in ("model name", "cpu family", "model") if (m := re.search(rf"^{k}\s*: (.*)$", info, re.M))}
    return f"{field.get('model name', '?')} (family {field.get('cpu family', '?')}, model {field.get('model', '?')})"


def measured(program):
    """What a page says of its figures: commit, day and machine."""
    commit = re.search(r"commit\s+(\S+)", text_of([program, "--version"], ""))
    return (f"commit {commit.group(1) if commit else text_of(['git', 'describe', '--always', '--dirty'])}, "
            f"{time.strftime('%Y-%m-%d')}, {cpu_model()}, {os.cpu_count()} cores, Linux {platform.release()}")


def head(b):
    b.say("# Speed of training\n\n[docs/performance.md](../docs/performance.md) explains how these figures are measured.  "
          f"`{shlex.join(['tests/bench.py', *(os.path.basename(w) if os.path.isabs(w) else w for w in sys.argv[1:])])}` wrote this page: "
          f"{measured(b.o.qgrad)}; {b.o.threads} threads; kernels {b.peak['cpu_path']}; "
          f"{', '.join(peer.name for peer in b.peers) or 'no PyTorch'}; {b.o.rounds} rounds of {b.o.seconds:g} s.\n")
    if not b.mnist:
        b.say(f"No MNIST in {b.o.data_dir}: LeNet-5 ran on noise of its shape.\n")
    b.say("| threads | multiply-add GFLOP/s | triad GB/s |\n|---|---|---|")
    for r in b.peak["peak"]:
        b.say(f"| {r['threads']} | {r['gflops']:.0f} | {r['gbytes_per_second']:.1f} |")
    b.say("\n## Targets\n")
    targets(b)


def summary_of(reached, short):
    """Lines on the targets of a page."""
    said = f"{reached} comparisons reached their goal" + (", these did not:" if short else ".")
    return ["", said, ""] + [f"- {line}" for line in short]


def check_out(ap, path):
    """Before minutes of measuring that could not be saved."""
    directory = os.path.dirname(path) or "."
    if not os.access(directory, os.W_OK):
        ap.error(f"--out {path}: {directory} is not a directory in which files can be written")


def options():
    ap = argparse.ArgumentParser(description="qgrad and PyTorch in turn; a report in Markdown")
    ap.add_argument("--rows", default="", metavar="REGEX", help="only the rows whose name matches")
    ap.add_argument("--sections", default=",".join(SECTIONS), help="which of " + ", ".join(SECTIONS))
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--seconds", type=float, default=3.0, help="per measurement")
    ap.add_argument("--threads", type=int, default=min(2, os.cpu_count()))
    ap.add_argument("--peer", dest="peers", action="append", metavar="PYTHON",
                    help="a Python with PyTorch, any number of times; default: the one that runs this")
    ap.add_argument("--no-peer", dest="peers", action="store_const", const=[], help="qgrad alone")
    ap.add_argument("--beside", metavar="QGRAD", help="another qgrad, for the section of that name")
    ap.add_argument("--busy", action="store_true", help="measure although the machine is not idle")
    ap.add_argument("--data-dir", default="datasets/mnist")
    ap.add_argument("--qgrad", default="build/qgrad")
    ap.add_argument("--out", default="build/bench.md")
    o = ap.parse_args()
    wrong = set(o.sections.split(",")) - set(SECTIONS)
    if wrong:
        ap.error(f"no section {', '.join(sorted(wrong))}; there is {', '.join(SECTIONS)}")
    check_out(ap, o.out)
    return o


def find_peers(pythons):
    peers = []
    for python in pythons:
        version, compiles = (text_of([python, "-c", VERSION], "") + "  ").split(" ")[:2]
        if version:
            peers.append(Peer(python, version, compiles == "1"))
        else:
            print(f"bench.py: {python} has no PyTorch and is left out (Debian's comes with python3-torch, the current "
                  "one with make torch)", file=sys.stderr)
    return peers


def save(path, b):
    """The report as Markdown, printed as well, and what was measured beside it as JSON."""
    with open(path, "w") as f:
        f.write("\n".join(b.out) + "\n")
    with open(os.path.splitext(path)[0] + ".json", "w") as f:
        json.dump(b.raw, f, indent=1)
    print("\n".join(b.out))


def main():
    o = options()
    taken = 0 if o.busy else taken_by_others()
    if taken > BUSY:
        sys.exit(f"bench.py: other processes take {100 * taken:.0f} % of the machine, and the load average is "
                 f"{os.getloadavg()[0]:.2f}: the figures would mean nothing (--busy measures all the same)")
    b = Bench(o)
    b.peers = find_peers([sys.executable] if o.peers is None else o.peers)
    try:
        b.peak = b.run([o.qgrad, "bench", "peak", "--threads", str(o.threads), "--seconds", str(o.seconds), "--json"])
    except Failed as e:
        sys.exit(f"bench.py: {e}")
    head(b)
    b.targets_end = len(b.out)
    for section in SECTIONS:
        if section in o.sections.split(",") and (section != "beside" or o.beside):
            title, call = TITLES[section]
            print(title, file=sys.stderr)
            b.say(f"\n## {title}\n")
            call(b)
    b.out[b.targets_end:b.targets_end] = summary_of(b.reached, b.short)      # known now, and stands behind the targets
    b.say(f"\nOther processes used up to {100 * b.disturbed:.0f} % of the machine during a measurement.")
    save(o.out, b)


if __name__ == "__main__":
    main()
