#!/usr/bin/python3
"""make bench-infer: the engine beside float convolutions, ONNX Runtime and PyTorch; the page results/engine.md.

    bench_infer.py [--sections kernels,nets,dense,avx2] [--nets LIST] [--rounds N] [--seconds S] [--peer PYTHON] [--busy]
                   [--qgrad FILE] [--out FILE]

The kernels section runs `qgrad bench infer` with OpenBLAS as it chooses for itself, with its kernels for AVX2, and with
the engine's kernels for AVX2.  The others run `qgrad bench packed` on nets with random weights, at batch 1 and 64 on
one and two threads.  Everything takes turns, and every figure is a median over rounds.  docs/performance.md tells the
rest.

Needs build/qgrad, and for the peers a Python with onnxruntime, onnx and PyTorch (make infer-peers); without them the
report has qgrad alone.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from bench import (BUSY, TOP, Failed, Service, check_out, failure, measured, not_measured, own_env, save,     # noqa: E402
                   summary_of, taken_by_others, verdict)

PEER = "tests/peer/infer_peer.py"
CASES = "1x1,1x2,64x1,64x2"                             # batch x threads
AVX2 = {"QGRAD_CPU": "avx2", "OPENBLAS_CORETYPE": "Haswell"}

# Signs are taken of what batch norm gives; a relu would leave only +1.
NETS = {
    "LeNet-5": ("lenet5", "28x28x1", "32C5p0-BN-MP2-64C5p0-BN-MP2-512FC-BN-10"),
    "VGG-7": ("vgg7", "32x32x3", "2*(128C3-BN)-MP2-2*(256C3-BN)-MP2-2*(512C3-BN)-MP2-1024FC-BN-10"),
    "ResNet-20": ("resnet20", "32x32x3", "16C3-BN-3*({16C3-BN-16C3-BN})-{32C3s2-BN-32C3-BN}:A-2*({32C3-BN-32C3-BN})"
                  "-{64C3s2-BN-64C3-BN}:A-2*({64C3-BN-64C3-BN})-GAP-10"),
}
SCHEMES = {
    "binary": "--weight binary --input sign",
    "W1A2": "--weight dorefa:bits=1 --input dorefa:bits=2",
    "ternary": "--weight twn",
    "int8": "--weight fake_quant:range=current,per-channel=yes --input fake_quant:range=observed",
}
ENDS = {"float ends": "--first-last float", "all": "--first-last quantized"}

# Dense layers of a few bits: qgrad's weights, inputs of 8 bits, and the bits of ONNX Runtime's MatMulNBits.
DENSE = "4096FC-R-4096FC-R-4096FC-R-10"
DENSE_WEIGHTS = {"ternary": ("twn", 2), "4 bits": ("fake_quant:bits=4,range=current", 4), "8 bits": ("fake_quant:range=current", 8)}

# Kernels: what each must reach as a multiple of im2col and OpenBLAS on AVX2.
AVX2_TARGETS = {"binary x binary": 6, "ternary x binary": 5, "binary x 2 bits (W1A2)": 3, "int8 x uint8": 1.6}


class Bench:
    def __init__(self, o):
        self.o, self.raw, self.out = o, [], []
        self.reached, self.short = 0, []                # targets that were reached; those that were not
        self.env = own_env()
        self.peers = self.find_peers()
        self.cases = [tuple(int(n) for n in case.split("x")) for case in o.cases.split(",")]

    def say(self, text=""):
        self.out.append(text)

    def find_peers(self):
        none = {"versions": {}, "peers": []}
        if not self.o.peer or not os.access(self.o.peer, os.X_OK):
            return {**none, "missing": "make infer-peers has not installed ONNX Runtime and PyTorch"}
        p = subprocess.run([self.o.peer, PEER, "--list"], cwd=TOP, env=self.env, text=True, capture_output=True)
        return json.loads(p.stdout) if p.returncode == 0 else {**none, "missing": p.stderr.strip().splitlines()[-1]}

    def qgrad(self, words, env):
        command = [self.o.qgrad, "bench", *words, "--seconds", f"{self.o.seconds:g}", "--json"]
        p = subprocess.run(command, cwd=TOP, env={**self.env, **env}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if p.returncode:
            raise Failed((p.stderr.strip().splitlines() or [f"exit status {p.returncode}"])[-1])
        return self.keep(command, env, json.loads(p.stdout))

    def keep(self, command, env, result):
        self.raw.append({"command": shlex.join(command), "env": env, "result": result})
        return result

    def ask(self, service, batch, threads):
        words = f"{batch} {threads} {self.o.seconds:g}"
        return self.keep([*service.command, words], {}, service.measure(words))


def turns(rounds, runs):
    """Runs each of {name: call} in turn; {name: results, or a Failed}."""
    results = {name: [] for name in runs}
    for _ in range(rounds):
        for name, call in runs.items():
            if not isinstance(results[name], Failed):
                try:
                    results[name].append(call())
                except Failed as e:
                    results[name] = e
    return results


def median(results, key):
    return statistics.median(r[key] for r in results)


# --- kernels --------------------------------------------------------------------------------------

def kernels(b):
    got = turns(b.o.rounds, {
        "native": lambda: b.qgrad(["infer"], {}),
        "haswell": lambda: b.qgrad(["infer"], {"OPENBLAS_CORETYPE": "Haswell"}),
        "avx2": lambda: b.qgrad(["infer"], AVX2),
    })
    why = failure(*got.values())
    if why:
        b.say(f"Not measured: {why}")
        return
    us = {kind: {row["name"]: statistics.median(q["median_us"] for r in results for q in r["rows"] if q["name"] == row["name"])
                 for row in results[0]["rows"]} for kind, results in got.items()}
    blas, loops, winograd = "float, im2col and OpenBLAS", "float, plain C loops", "float, Winograd"
    native = got["native"][0]
    b.say(f"One thread, kernels {native['cpu_path']}, bits by {native['method']}; the columns are what a row is faster than: OpenBLAS on core "
          f"{native['blas_core']}, OpenBLAS on core Haswell in a process of its own, our Winograd and plain C loops.\n")
    b.say("| 3x3 256->256, 14x14 | us | x OpenBLAS | x OpenBLAS Haswell | x our Winograd | x plain loops |\n|---|---|---|---|---|---|")
    b.say(f"| float, im2col and OpenBLAS Haswell | {us['haswell'][blas]:.1f} | {us['native'][blas] / us['haswell'][blas]:.2f} | 1.00 | "
          f"{us['native'][winograd] / us['haswell'][blas]:.2f} | {us['native'][loops] / us['haswell'][blas]:.0f} |")
    for name, t in us["native"].items():
        b.say(f"| {name} | {t:.1f} | {us['native'][blas] / t:.2f} | {us['haswell'][blas] / t:.2f} | {us['native'][winograd] / t:.2f} | "
              f"{us['native'][loops] / t:.0f} |")
    b.say("\nThe same with the kernels and OpenBLAS of AVX2 (`QGRAD_CPU=avx2 OPENBLAS_CORETYPE=Haswell`), bits by "
          f"{got['avx2'][0]['method']}:\n\n| | us | x OpenBLAS | target |\n|---|---|---|---|")
    for name, t in us["avx2"].items():
        x, target = us["avx2"][blas] / t, AVX2_TARGETS.get(name)
        bar = verdict(b, f"{name} on AVX2", x, target, target) if target else ""
        b.say(f"| {name} | {t:.1f} | {x:.2f} | {f'{target}, {bar}' if target else ''} |")


def bar_of(b, name, x, floor, goal):
    """A ratio and the bar that it reaches."""
    return "" if x is None else f"{x:.2f}: {verdict(b, name, x, floor, goal)}"


# --- nets -----------------------------------------------------------------------------------------

def ours(net):
    """{name: options} of qgrad's rows of a net."""
    model, image, signs = NETS[net]
    rows = {"float": ["--model", model]}
    for scheme, words in SCHEMES.items():
        for ends, more in ENDS.items():
            rows[f"{scheme}, {ends}"] = ["--model", signs if scheme == "binary" else model, *shlex.split(words), *shlex.split(more)]
    return {name: ["packed", *words, "--image", image] for name, words in rows.items()}


def services(b, net):
    """{peer: a process that has built the net}; of PyTorch's engines the one that is fastest at batch 8."""
    started = {}
    for peer in b.peers["peers"]:
        print("  building", net, "in", peer, file=sys.stderr, flush=True)
        started[peer] = Service([b.o.peer, PEER, "--net", NETS[net][0], "--peer", peer], b.env)
    rates = {}
    for peer, service in started.items():
        if peer.startswith("pytorch"):
            try:
                rates[peer] = b.ask(service, 8, 1)["images_per_second"]
            except Failed as e:
                print(f"  {peer}: {e}", file=sys.stderr)
    best = max(rates, key=rates.get) if rates else None
    for peer in [p for p in started if p.startswith("pytorch") and p != best]:
        started.pop(peer).close()
    return started, rates


def measure_net(b, net):
    """{(batch, threads): {row: results}}, and what was found of PyTorch's engines."""
    rows, (peers, rates) = ours(net), services(b, net)
    results = {}
    try:
        for batch, threads in b.cases:
            runs = {name: lambda words=words: b.qgrad([*words, "--batch", str(batch), "--threads", str(threads)], {})
                    for name, words in rows.items()}
            for peer, service in peers.items():
                runs[peer] = lambda service=service: b.ask(service, batch, threads)
            results[batch, threads] = turns(b.o.rounds, runs)
            for name, r in results[batch, threads].items():
                print(f"  {net}, batch {batch}, {threads} threads, {name}:",
                      failure(r) or f"{median(r, 'images_per_second'):.0f} images/s", file=sys.stderr, flush=True)
    finally:
        for service in peers.values():
            service.close()
    return results, rates


def rate_of(results, case, name):
    r = results[case].get(name)
    return None if r is None or failure(r) else median(r, "images_per_second")


def ratio(a, b):
    return "" if a is None or b is None else f"{a / b:.2f}"


def net_table(b, net):
    results, rates = measure_net(b, net)
    torch = next((name for name in results[b.cases[0]] if name.startswith("pytorch")), None)
    bar = {case: max((r for r in (rate_of(results, case, n) for n in ("float", "onnxruntime-float")) if r), default=None)
           for case in b.cases}
    single = [case for case in b.cases if case[0] == 1]
    b.say(f"\n### {net}\n")
    b.say("| images/s | bytes of the file | " + " | ".join(f"batch {n}, {t} thread{'s' * (t > 1)}" for n, t in b.cases)
          + "".join(f" | median us, batch 1, {t} thread{'s' * (t > 1)} | 99th percentile" for _, t in single)
          + " |\n" + "|---" * (len(b.cases) + 2 * len(single) + 2) + "|")
    for name, r in results[b.cases[0]].items():
        why = failure(*(results[case][name] for case in b.cases))
        if why:
            not_measured(b, f"{net}, {name}", why, len(b.cases) + 2 * len(single) + 2)
            continue
        size = f"{r[0]['file_bytes']:,}" if "file_bytes" in r[0] else ""
        b.say(f"| {name} | {size} | " + " | ".join(f"{rate_of(results, case, name):.0f}" for case in b.cases)
              + "".join(f" | {median(results[case][name], key):.1f}" for case in single for key in ("median_us", "p99_us")) + " |")
    heads = ["float"] + (["onnxruntime-int8"] if "onnxruntime-int8" in results[b.cases[0]] else []) + ([torch] if torch else [])
    b.say("\n| times the speed of | " + " | ".join(f"{h}, batch {n}, {t}" for h in heads for n, t in b.cases) + " | bar |\n"
          + "|---" * (len(heads) * len(b.cases) + 2) + "|")
    for name in ours(net):
        cells = [ratio(rate_of(results, case, name), bar[case]) for case in b.cases]
        for h in heads[1:]:
            cells += [ratio(rate_of(results, case, name), rate_of(results, case, h)) if name.startswith("int8") else "" for case in b.cases]
        b.say(f"| {name} | " + " | ".join(cells) + f" | {net_bar(b, net, name, results, bar)} |")
    b.say("\nfloat: the faster of qgrad's engine with float weights and ONNX Runtime."
          + (f"  PyTorch's engines at batch 8, one thread: {', '.join(f'{p} {r:.0f}' for p, r in rates.items())} images/s; "
             "the fastest is in the table." if rates else ""))


def least_of(results, name, other):
    """The least ratio of all cases; other: {case: rate}."""
    pairs = [(rate_of(results, case, name), other[case]) for case in results]
    return min((a / o for a, o in pairs if a and o), default=None)


def net_bar(b, net, name, results, bar):
    """Floors: binary VGG-7 six times float, int8 level with ONNX Runtime's, ternary never slower than float."""
    if net == "VGG-7" and name == "binary, float ends":
        other, floor, goal = bar, 6, 10
    elif name.startswith("int8"):
        other, floor, goal = {case: rate_of(results, case, "onnxruntime-int8") for case in results}, 1, 1.2
    elif name.startswith("ternary"):
        other, floor, goal = {case: rate_of(results, case, "float") for case in results}, 1, 1
    else:
        return ""
    return bar_of(b, f"{net}, {name}", least_of(results, name, other), floor, goal)


def nets(b):
    b.say("Nets with random weights.  *float ends*: the first and the last product are float; *all*: they are quantized as well.  "
          "*bar*: the least ratio over batches and threads.  The quantizers are:\n\n| name | options |\n|---|---|")
    for name, words in SCHEMES.items():
        b.say(f"| {name} | `{words}`{', without relu, since signs of its results are all +1' if name == 'binary' else ''} |")
    for net in b.o.nets.split(","):
        net_table(b, net)


def dense(b):
    """Weights of few bits are read from memory at batch 1: against MatMulNBits of as many bits."""
    b.say(f"`784-4096-4096-4096-10` (`--model {DENSE}`), inputs of 8 bits; *bar*: the least ratio to MatMulNBits of as many bits in blocks of "
          "128 at batch 1: floor 1, goal 1.5.\n\n| images/s | bytes of weights in memory | "
          + " | ".join(f"batch {n}, {t} thread{'s' * (t > 1)}" for n, t in b.cases) + " | bar |\n" + "|---" * (len(b.cases) + 3) + "|")
    names = [f"onnxruntime-{bits}bits" for _, bits in DENSE_WEIGHTS.values()] if "onnxruntime-float" in b.peers["peers"] else []
    peers = {name: Service([b.o.peer, PEER, "--net", "dense", "--peer", name], b.env) for name in names}
    results = {}
    try:
        for batch, threads in b.cases:
            runs = {name: lambda w=w: b.qgrad(["packed", "--model", DENSE, "--image", "28x28x1", "--weight", w, "--input",
                                               "fake_quant:range=observed", "--batch", str(batch), "--threads", str(threads)], {})
                    for name, (w, _) in DENSE_WEIGHTS.items()}
            runs.update({name: lambda s=s: b.ask(s, batch, threads) for name, s in peers.items()})
            results[batch, threads] = turns(b.o.rounds, runs)
    finally:
        for service in peers.values():
            service.close()
    for name in [*DENSE_WEIGHTS, *peers]:
        why = failure(*(results[case][name] for case in b.cases))
        if why:
            not_measured(b, f"dense layers, {name}", why, len(b.cases) + 3)
            continue
        size, bar = results[b.cases[0]][name][0].get("weight_bytes"), ""
        if name in DENSE_WEIGHTS:
            rival = f"onnxruntime-{DENSE_WEIGHTS[name][1]}bits"
            x = least_of(results, name, {case: rate_of(results, case, rival) if case[0] == 1 else None for case in b.cases})
            bar = bar_of(b, f"dense layers, {name}, batch 1", x, 1, 1.5)
        b.say(f"| {name} | {f'{size:,}' if size else ''} | " + " | ".join(f"{rate_of(results, case, name):.0f}" for case in b.cases) + f" | {bar} |")


def avx2(b):
    """Binary VGG-7 against float, both with the kernels of AVX2."""
    rows = {name: words for name, words in ours("VGG-7").items() if name in ("float", "binary, float ends", "binary, all")}
    b.say("`QGRAD_CPU=avx2`, VGG-7; the peers cannot be kept from AVX-512, so float is the engine's.\n\n"
          "| | " + " | ".join(f"batch {n}, {t} thread{'s' * (t > 1)}" for n, t in b.cases) + " | x float, least | floor |\n"
          + "|---" * (len(b.cases) + 3) + "|")
    results = {case: turns(b.o.rounds, {name: lambda words=words, case=case: b.qgrad(
        [*words, "--batch", str(case[0]), "--threads", str(case[1])], AVX2) for name, words in rows.items()}) for case in b.cases}
    for name in rows:
        why = failure(*(results[case][name] for case in b.cases))
        if why:
            not_measured(b, f"VGG-7 on AVX2, {name}", why, len(b.cases) + 3)
            continue
        x = least_of(results, name, {case: rate_of(results, case, "float") for case in b.cases})
        bar = "3, " + verdict(b, "VGG-7 on AVX2, binary, float ends", x, 3, 3) if name == "binary, float ends" else ""
        b.say(f"| {name} | " + " | ".join(f"{rate_of(results, case, name):.0f}" for case in b.cases) + f" | {x:.2f} | {bar} |")


# --- the report -----------------------------------------------------------------------------------

SECTIONS = {"kernels": ("Kernels", kernels), "nets": ("Nets", nets), "dense": ("Dense layers of few bits", dense), "avx2": ("AVX2", avx2)}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--sections", default=",".join(SECTIONS))
    p.add_argument("--nets", default=",".join(NETS))
    p.add_argument("--cases", default=CASES, help="batch x threads")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=0.3)
    p.add_argument("--peer", help="a Python with onnxruntime, onnx and PyTorch")
    p.add_argument("--busy", action="store_true", help="measure although others use the machine")
    p.add_argument("--qgrad", default="build/qgrad")
    p.add_argument("--out", default="build/bench-infer.md")
    o = p.parse_args()
    o.qgrad, o.out = os.path.abspath(o.qgrad), os.path.abspath(o.out)
    o.peer = os.path.abspath(o.peer) if o.peer else None
    wrong = [s for s in o.sections.split(",") if s not in SECTIONS] + [n for n in o.nets.split(",") if n not in NETS]
    if wrong:
        p.error(f"unknown section or net {wrong[0]}")
    check_out(p, o.out)
    taken = taken_by_others()
    if taken > BUSY and not o.busy:
        sys.exit(f"bench_infer.py: other processes use {100 * taken:.0f} % of this machine; --busy measures anyway")
    b, began = Bench(o), time.monotonic()
    versions = ", ".join(f"{k} {v}" for k, v in b.peers["versions"].items())
    if b.peers.get("missing"):
        print("bench_infer.py: no peers:", b.peers["missing"], file=sys.stderr)
    b.say("# Speed of the engine\n\n[docs/performance.md](../docs/performance.md#compare-the-engine) explains how these figures are "
          f"measured.  `make bench-infer` wrote this page: {measured(o.qgrad)}; "
          f"{versions or 'no peers: ' + b.peers.get('missing', '')}; medians of {o.rounds} rounds of {o.seconds:g} s"
          + (f"; other processes used {100 * taken:.0f} % of the machine before it began" if taken > BUSY else "") + ".\n\n"
          "| target | floor | goal |\n|---|---|---|\n"
          "| binary VGG-7, float ends, times float | 6 | 10 |\n| the same on AVX2 | 3 | |\n"
          "| int8 nets, times ONNX Runtime's int8 | 1 | 1.2 |\n| ternary nets with float activations, times float in the engine | 1 | |\n"
          "| dense layers of few bits, batch 1, times ONNX Runtime's of as many bits | 1 | 1.5 |\n"
          f"| AVX2, times im2col and OpenBLAS on AVX2: {', '.join(AVX2_TARGETS)} | {', '.join(f'{x:g}' for x in AVX2_TARGETS.values())} | |\n\n"
          "*float* is the faster one of the engine with float weights and ONNX Runtime.")
    end = len(b.out)
    for section in o.sections.split(","):
        title, run = SECTIONS[section]
        b.say(f"\n## {title}\n")
        run(b)
    b.out[end:end] = summary_of(b.reached, b.short)
    after = taken_by_others()
    b.say(f"\nTook {(time.monotonic() - began) / 60:.1f} minutes; other processes used {100 * after:.0f} % of the machine at the end.")
    save(o.out, b)


if __name__ == "__main__":
    main()
